#include "core/rollout/rollout.h"

#include <fmt/format.h>

#include "core/io/members.h"

namespace forge {
namespace {

constexpr auto kPartMembers = [](auto& part, auto&& member) {
  member("score", part.score, "null: there is none");
  member("reason", part.reason, "in a few words");
};

constexpr auto kCompletionMembers = [](auto& c, auto&& member) {
  member("prompt", c.prompt, "number of the example", at_least(0));
  member("draw", c.draw, "batch of prompts", at_least(0));
  member("place", c.place, "in that batch", at_least(0));
  member("group", c.group, "of the rollout", at_least(0));
  member("sample", c.sample, "of the group", at_least(0));
  member("ids", c.ids, "what was drawn");
  member("sampler_logps", c.sampler_logps, "of each id");
  member("text_tokens", c.text_tokens, "of the ids: those that are scored", at_least(0));
  member("truncated", c.truncated, "it ended at a limit");
  member("prompt_text", c.prompt_text, "as the model read it");
  member("text", c.text, "as it was scored");
  member("parts", c.parts, "by reward");
  member("reward", c.reward, "null: unscored");
  member("unscored_reason", c.unscored_reason, "why");
  member("advantage", c.advantage, "over its group");
  member("counts", c.counts, "in the divisor");
  member("old_logps", c.old_logps, "of each id, before the rollout's first step");
  member("base_logps", c.base_logps, "of each id, under the base model");
  member("values", c.values, "of each id, by the value network");
  member("advantages", c.advantages, "of each id, where they differ");
  member("returns", c.returns, "of each id: what the value network learns");
};

constexpr auto kRolloutMembers = [](auto& r, auto&& member) {
  member("number", r.number, "from 0", at_least(0));
  member("drawn", r.drawn, "batches of prompts up to its end", at_least(0));
  member("rounds", r.rounds, "of drawing", at_least(0));
  member("discarded", r.discarded, "groups that were not kept", at_least(0));
  member("groups", r.groups, "with a completion that counts", at_least(0));
  member("flat_groups", r.flat_groups, "of them", at_least(0));
  member("dropped_groups", r.dropped_groups, "too few scored completions", at_least(0));
  member("completions", r.completions, "by group and sample");
  member("slots", r.slots, "completions drawn at once", at_least(0));
};

}  // namespace

static void to_json(Json& json, const RewardPart& part) { json = write_members(part, kPartMembers); }
static void from_json(const Json& json, RewardPart& part) { read_members(json, part, kPartMembers); }
static void to_json(Json& json, const Completion& c) { json = write_members(c, kCompletionMembers); }
static void from_json(const Json& json, Completion& c) { read_members(json, c, kCompletionMembers); }

void to_json(Json& json, const Rollout& rollout) { json = write_members(rollout, kRolloutMembers); }
void from_json(const Json& json, Rollout& rollout) { read_members(json, rollout, kRolloutMembers); }

Json rollout_line(const Completion& c, const std::vector<RewardConfig>& rewards) {
  Json parts = Json::object();
  for (size_t k = 0; k < c.parts.size(); ++k)
    parts[rewards.at(k).name] = {{"score", c.parts[k].score ? Json(*c.parts[k].score) : Json(nullptr)},
                                 {"reason", c.parts[k].reason}};
  return {{"prompt", c.prompt},
          {"draw", c.draw},
          {"place", c.place},
          {"sample", c.sample},
          {"kept", c.kept},
          {"reward", c.reward ? Json(*c.reward) : Json(nullptr)},
          {"rewards", std::move(parts)},
          {"unscored", c.unscored_reason},
          {"finish", c.truncated ? "length" : "stop"},
          {"tokens", c.text_tokens},
          {"prompt_text", c.prompt_text},
          {"text", c.text},
          {"ids", c.ids},
          {"sampler_logps", c.sampler_logps}};
}

bool take_scores(const Json& line, const std::vector<RewardConfig>& rewards, Completion& c) {
  try {
    const bool same = line.at("prompt") == c.prompt && line.at("draw") == c.draw && line.at("place") == c.place &&
                      line.at("sample") == c.sample &&
                      line.at("ids").get<std::vector<int32_t>>() == c.ids;
    if (!same || line.at("rewards").size() != rewards.size()) return false;
    std::vector<RewardPart> parts;
    for (const RewardConfig& reward : rewards) {
      const Json& part = line["rewards"].at(reward.name);
      parts.push_back({});
      if (!part.at("score").is_null()) parts.back().score = part["score"].get<double>();
      parts.back().reason = part.at("reason").get<std::string>();
    }
    c.reward = line.at("reward").is_null() ? std::nullopt : std::optional(line["reward"].get<double>());
    c.unscored_reason = line.at("unscored").get<std::string>();
    c.prompt_text = line.at("prompt_text").get<std::string>();
    c.text = line.at("text").get<std::string>();
    c.parts = std::move(parts);
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

std::string rollout_path(const std::string& run_folder, int64_t number) {
  return fmt::format("{}/rollouts/rollout-{:06}.jsonl", run_folder, number);
}

}  // namespace forge
