#include "core/learn/reward/process_pool.h"

#include <algorithm>
#include <cmath>

#include "core/learn/reward/answer.h"

namespace forge {
namespace {

bool is_number(const Json& value) { return value.is_number() && std::isfinite(value.get<double>()); }

constexpr size_t kMostParts = 256;

std::string fault_of(Json& reply) {
  const auto value = reply.find("score");
  if (value == reply.end()) return "its reply has neither score nor error";
  if (!value->is_null() && !is_number(*value)) return "its score is not a finite number";
  Json kept{{"score", *value}};
  if (const auto parts = reply.find("parts"); parts != reply.end() && !parts->is_null() && !value->is_null()) {
    if (!parts->is_object() || !std::all_of(parts->begin(), parts->end(), is_number))
      return "its parts are not numbers by name";
    if (parts->size() > kMostParts) return "it has more than " + std::to_string(kMostParts) + " parts";
    kept["parts"] = *parts;
  }
  if (const auto info = reply.find("info"); info != reply.end() && info->is_string())
    kept["info"] = kept_info(info->get_ref<const std::string&>());
  reply = std::move(kept);
  return "";
}

Score score_of(const ChildReply& answered) {
  if (!answered.failure.empty()) return Score::failed(kept_info(answered.failure), ErrorKind::environment);
  const Json& reply = answered.reply;
  const std::string info = reply.value("info", "");
  if (reply["score"].is_null()) return Score::declined(info.empty() ? "it gave no score" : info);
  Score score = Score::of(reply["score"].get<double>(), info);
  if (reply.contains("parts")) score.parts = reply["parts"];
  return score;
}

ChildPoolSettings settings_of(const std::string& name, const CommandReward& reward, const CommandContext& context) {
  return {.name = "reward " + name,
          .child = {reward.command, reward.directory.value_or(""), reward.environment, reward.memory_limit},
          .workers = reward.workers,
          .timeout = reward.timeout,
          .greeting = {{"forge", 1}, {"reward", name}, {"job", context.job}, {"seed", context.seed}},
          .nan_hint = ": \"score\": null says that there is no score"};
}

}  // namespace

ProcessPool::ProcessPool(const RewardConfig& reward, const CommandContext& context)
    : ChildPool(settings_of(reward.name, reward.as<CommandReward>(), context)) {}

std::vector<Score> ProcessPool::score(const std::vector<RewardSample>& samples, int64_t step, int64_t most_failures,
                                      const std::function<bool()>& stopped) {
  std::vector<ChildItem> items;
  for (const RewardSample& sample : samples) items.push_back({reward_item(sample, step), sample.place});
  std::vector<Score> scores;
  for (const ChildReply& reply : ask(items, {{"end", step}}, most_failures, fault_of, stopped))
    scores.push_back(score_of(reply));
  return scores;
}

}  // namespace forge
