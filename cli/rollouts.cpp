// forge rollouts: shows the completions that a run generated, and their rewards.
#include <algorithm>

#include "cli/command.h"
#include "cli/console.h"
#include "core/learn/rollout/rollout.h"
#include "core/lib/base/file.h"
#include "core/lib/base/near_path.h"
#include "core/lib/base/text.h"
#include "core/run/host/shown_rollout.h"
#include "core/run/run_folder.h"

namespace forge::rollouts_command {
namespace {

constexpr Option kOptions[] = {
    {"--rollout", "N", "number of the rollout (default: the last)"},
    {"--best", "", "sort by reward, highest first"},
    {"--worst", "", "sort by reward, lowest first"},
    {"--limit", "N", "number of completions to show (default 8)"},
};

// Returns the numbers of the rollouts in the folder, ascending, from 1.
std::vector<int64_t> rollouts_in(const std::string& folder) {
  std::vector<int64_t> numbers;
  for (const std::string& name : names_in(folder + "/rollouts"))
    if (const std::optional<int64_t> number = rollout_number(name)) numbers.push_back(*number + 1);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
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
  std::vector<ShownCompletion> completions = read_shown_rollout(rollout_path(folder, number - 1));
  const bool best = args.has("--best"), worst = args.has("--worst");
  if (best && worst) throw Error(ErrorKind::usage, "--best and --worst cannot be combined");
  const auto before = [&](const ShownCompletion& a, const ShownCompletion& b) {
    return best ? a.reward.value_or(0) > b.reward.value_or(0) : a.reward.value_or(0) < b.reward.value_or(0);
  };
  if (best || worst) std::stable_sort(completions.begin(), completions.end(), before);
  const auto limit = static_cast<size_t>(args.integer("--limit", 8, 1, INT64_MAX));
  if (completions.size() > limit) completions.resize(limit);
  if (args.json()) {
    Json lines = Json::array();
    for (const ShownCompletion& completion : completions) lines.push_back(completion.line);
    print_json({{"rollout", number}, {"rollouts", numbers.back()}, {"completions", lines}});
    return 0;
  }
  print("rollout " + format_count(number) + " of " + format_count(numbers.back()) + "\n");
  for (const ShownCompletion& completion : completions) print_text("\n" + shown_text(completion));
  return 0;
}

}  // namespace

constexpr Command kCommand{
    "rollouts", "RUN", 1, 1,
    "show the completions of a run's rollouts, with their rewards",
    kOptions, run};

}  // namespace forge::rollouts_command
