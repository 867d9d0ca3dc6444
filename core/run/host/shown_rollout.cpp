#include "core/run/host/shown_rollout.h"

#include <charconv>
#include <string_view>


#include "core/learn/reward/answer.h"
#include "core/lib/base/file.h"
#include "core/lib/base/format.h"
#include "core/lib/base/text.h"
#include "core/lib/io/members.h"

namespace forge {
namespace {

constexpr int64_t kLargestFile = int64_t{1} << 30;

constexpr auto kRewardMembers = [](auto& reward, auto&& member) {
  member.later("score", reward.score, "null: unscored");
  member.later("reason", reward.reason, "for the score");
};

constexpr auto kCompletionMembers = [](auto& completion, auto&& member) {
  member.later("reward", completion.reward, "the weighted sum; null: unscored");
  member.later("unscored", completion.unscored, "the reason for it");
  member.later("finish", completion.finish, "stop or length");
  member.later("tokens", completion.tokens, "of the text", at_least(0));
  member.later("turns", completion.turns, "parts that the model wrote", at_least(0));
  member.later("kept", completion.kept, "false: its group was not trained on");
  member.later("prompt_text", completion.prompt_text, "the prompt");
  member.later("text", completion.text, "the completion");
  member.later("transcript", completion.transcript, "with the answers of tools");
};

void require_object(const Json& json) {
  if (!json.is_object()) throw MemberFault(": expected an object, found " + found_text(json));
}

std::vector<std::pair<std::string, ShownReward>> rewards_of(const Json& line) try {
  std::vector<std::pair<std::string, ShownReward>> rewards;
  const auto found = line.find("rewards");
  if (found == line.end()) return rewards;
  require_object(*found);
  for (const auto& [name, part] : found->items()) try {
      require_object(part);
      read_members(part, rewards.emplace_back(name, ShownReward()).second, kRewardMembers);
    } catch (const MemberFault& fault) {
      throw fault.inside(name);
    }
  return rewards;
} catch (const MemberFault& fault) {
  throw fault.inside("rewards");
}

ShownCompletion completion_of(const Json& line) {
  ShownCompletion completion;
  require_object(line);
  read_members(line, completion, kCompletionMembers);
  completion.rewards = rewards_of(line);
  completion.line = line;
  return completion;
}

}  // namespace

std::optional<int64_t> rollout_number(const std::string& name) {
  constexpr std::string_view kBefore = "rollout-", kAfter = ".jsonl";
  if (!starts_with(name, kBefore) || !ends_with(name, kAfter) || name.size() <= kBefore.size() + kAfter.size()) return {};
  const char *begin = name.data() + kBefore.size(), *end = name.data() + name.size() - kAfter.size();
  int64_t number = 0;
  const auto [stopped, fault] = std::from_chars(begin, end, number);
  const bool whole = fault == std::errc() && stopped == end && *begin != '-' && number < INT64_MAX;
  return whole ? std::optional(number) : std::nullopt;
}

std::vector<ShownCompletion> read_shown_rollout(const std::string& path) {
  std::vector<ShownCompletion> completions;
  int64_t number = 0;
  for (const std::string& text : split(read_file(path, kLargestFile, ErrorKind::environment), '\n')) {
    if (++number; text.empty()) continue;
    const Json line = parse_json(text, path, ErrorKind::environment, {}, number);
    read_checked(line, path + ":" + std::to_string(number), [&](const Json& json) { completions.push_back(completion_of(json)); });
  }
  return completions;
}

std::string shown_text(const ShownCompletion& completion) {
  std::vector<std::string> parts;
  for (const auto& [name, reward] : completion.rewards)
    parts.push_back(name + " " + (reward.score ? fmt::format("{:.4g}", *reward.score) : "unscored") +
                    (reward.reason.empty() ? "" : ": " + reward.reason));
  std::string text = completion.reward ? fmt::format("reward {:.4g}", *completion.reward) : "unscored: " + completion.unscored;
  text += " (" + join(parts, ", ") + "), " + format_count(completion.tokens) + " tokens, " + completion.finish;
  if (completion.turns) text += ", " + format_count(*completion.turns) + " turns";
  if (!completion.kept) text += ", group not kept";
  return text + "\n  prompt: " + shortened(completion.prompt_text) + "\n  " + completion.transcript.value_or(completion.text) + "\n";
}

}  // namespace forge
