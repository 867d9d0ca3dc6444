// forge rollouts: shows the completions that a run generated, and their rewards.
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/console.h"
#include "core/base/file.h"
#include "core/base/near_path.h"
#include "core/base/printable.h"
#include "core/base/text.h"
#include "core/reward/answer.h"
#include "core/rollout/rollout.h"
#include "core/run/run_folder.h"

namespace forge {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kLargestFile = int64_t{1} << 30;

constexpr Option kOptions[] = {
    {"--rollout", "N", "number of the rollout (default: the last)"},
    {"--best", "", "sort by reward, highest first"},
    {"--worst", "", "sort by reward, lowest first"},
    {"--limit", "N", "number of completions to show (default 8)"},
};

// Returns the numbers of the rollouts in the folder, ascending, from 1.
std::vector<int64_t> rollouts_in(const std::string& folder) {
  std::vector<int64_t> numbers;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder + "/rollouts", ignored)) {
    const std::string name = entry.path().stem().string();
    const size_t dash = name.rfind('-');
    if (entry.path().extension() == ".jsonl" && dash != name.npos && name.find_first_not_of("0123456789", dash + 1) == name.npos)
      numbers.push_back(std::stoll(name.substr(dash + 1)) + 1);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::vector<Json> completions_of(const std::string& path) {
  std::vector<Json> lines;
  int64_t number = 0;
  for (const std::string& line : split(read_file(path, kLargestFile, ErrorKind::environment), '\n'))
    if (++number; !line.empty()) lines.push_back(parse_json(line, path, ErrorKind::environment, {}, number));
  return lines;
}

double reward_of(const Json& line) { return line.contains("reward") && line["reward"].is_number() ? line["reward"].get<double>() : 0; }

// Returns "reward 0.8 (correct 1, brief 0.5: 31 tokens), 12 tokens, stop".
std::string shown_completion(const Json& line) {
  std::vector<std::string> parts;
  const Json rewards = line.value("rewards", Json::object());
  for (const auto& [name, part] : rewards.items()) {
    const Json score = part.value("score", Json());
    const std::string reason = part.value("reason", "");
    parts.push_back(name + " " + (score.is_number() ? fmt::format("{:.4g}", score.get<double>()) : "unscored") +
                    (reason.empty() ? "" : ": " + reason));
  }
  const bool scored = line.contains("reward") && line["reward"].is_number();
  return (scored ? fmt::format("reward {:.4g}", reward_of(line)) : "unscored: " + line.value("unscored", "")) + " (" + join(parts, ", ") +
         "), " + format_count(line.value("tokens", int64_t{0})) + " tokens, " + line.value("finish", "") +
         (line.contains("turns") ? ", " + format_count(line.value("turns", int64_t{0})) + " turns" : "") + (line.value("kept", true) ? "" : ", group not kept") + "\n  prompt: " + shortened(line.value("prompt_text", "")) + "\n  " +
         line.value("transcript", line.value("text", "")) + "\n";
}

int run(const Arguments& args) {
  const std::string folder = args.operands()[0];
  if (!is_directory(folder)) throw Error(ErrorKind::environment, folder + ": no such folder, expected a run folder").hint(near_path_hint(folder, "runs are the folders below output_dir"));
  require_run_folder(folder);
  const std::vector<int64_t> numbers = rollouts_in(folder);
  if (numbers.empty())
    throw Error(ErrorKind::environment, folder + ": has no rollouts")
        .hint("objectives that draw completions (grpo) leave them in " + folder + "/rollouts");
  const int64_t number = args.integer("--rollout", numbers.back(), 1, INT64_MAX);
  if (!std::binary_search(numbers.begin(), numbers.end(), number))
    throw Error(ErrorKind::usage, "--rollout " + std::to_string(number) + ": the run has " + format_count(numbers.front()) + " to " +
                                      format_count(numbers.back()));
  std::vector<Json> lines = completions_of(rollout_path(folder, number - 1));
  const bool best = args.has("--best"), worst = args.has("--worst");
  if (best && worst) throw Error(ErrorKind::usage, "--best and --worst cannot be combined");
  if (best || worst)
    std::stable_sort(lines.begin(), lines.end(),
                     [&](const Json& a, const Json& b) { return best ? reward_of(a) > reward_of(b) : reward_of(a) < reward_of(b); });
  const auto limit = static_cast<size_t>(args.integer("--limit", 8, 1, INT64_MAX));
  if (lines.size() > limit) lines.resize(limit);
  if (args.json()) {
    print_json({{"rollout", number}, {"rollouts", numbers.back()}, {"completions", lines}});
    return 0;
  }
  print("rollout " + format_count(number) + " of " + format_count(numbers.back()) + "\n");
  for (const Json& line : lines) print_text("\n" + shown_completion(line));
  return 0;
}

}  // namespace

extern const Command kRolloutsCommand;
constexpr Command kRolloutsCommand{
    "rollouts", "RUN", 1, 1,
    "show the completions of a run's rollouts, with their rewards",
    kOptions, run};

}  // namespace forge
