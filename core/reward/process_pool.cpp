#include "core/reward/process_pool.h"

#include <algorithm>
#include <cmath>

#include "core/reward/reward_item.h"

namespace forge {
namespace {

bool is_number(const Json& value) { return value.is_number() && std::isfinite(value.get<double>()); }

std::string fault_of(const Json& reply) {
  const auto value = reply.find("score");
  if (value == reply.end()) return "its reply has neither score nor error";
  if (value->is_null()) return "";
  if (!is_number(*value)) return "its score is no finite number";
  const auto parts = reply.find("parts");
  const bool numbers = parts == reply.end() || parts->is_null() || (parts->is_object() && std::all_of(parts->begin(), parts->end(), is_number));
  return numbers ? "" : "its parts are no numbers by name";
}

Score score_of(const ChildReply& answered) {
  if (!answered.failure.empty()) return Score::failed(answered.failure, ErrorKind::environment);
  const Json& reply = answered.reply;
  const std::string info = reply.contains("info") && reply["info"].is_string() ? reply["info"].get<std::string>() : "";
  if (reply["score"].is_null()) return Score::declined(info.empty() ? "it gave no score" : info);
  Score score = Score::of(reply["score"].get<double>(), info);
  if (reply.contains("parts")) score.parts = reply["parts"];
  return score;
}

}  // namespace

ProcessPool::ProcessPool(const RewardConfig& reward, const CommandContext& context)
    : pool_({.name = "reward " + reward.name,
             .child = {reward.command, reward.directory.value_or(""), reward.environment, reward.memory_limit},
             .workers = reward.workers,
             .timeout = reward.timeout,
             .greeting = {{"forge", 1}, {"reward", reward.name}, {"job", context.job}, {"seed", context.seed}},
             .nan_hint = ": \"score\": null says that there is no score"}) {}

std::vector<Score> ProcessPool::score(const std::vector<RewardSample>& samples, int64_t step, int64_t most_failures,
                                      const std::function<bool()>& stopped) {
  std::vector<ChildItem> items;
  for (const RewardSample& sample : samples) items.push_back({reward_item(sample, step), sample.place});
  std::vector<Score> scores;
  for (const ChildReply& reply : pool_.ask(items, {{"end", step}}, most_failures, fault_of, stopped)) scores.push_back(score_of(reply));
  return scores;
}

}  // namespace forge
