#include "core/learn/rollout/rollout.h"


#include "core/lib/base/format.h"
#include "core/lib/base/hash.h"
#include "core/lib/io/members.h"

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
  member("ids", c.ids, "what follows the prompt");
  member.later("inserted", c.inserted, "of the ids: those that were not drawn");
  member("sampler_logps", c.sampler_logps, "of each drawn id");
  member.later("turns", c.turns, "of the model", at_least(0));
  member.later("text_begin", c.text_begin, "of the ids: where what is scored begins", at_least(0));
  member("text_tokens", c.text_tokens, "of the ids: those that are scored", at_least(0));
  member("truncated", c.truncated, "it ended at a limit");
  member.later("failure", c.failure, "of a tool");
  member.later("adapter", c.adapter, "that a server drew with");
  member("prompt_text", c.prompt_text, "as the model read it");
  member("text", c.text, "as it was scored");
  member.later("transcript", c.transcript, "of several turns");
  member("parts", c.parts, "by reward");
  member("reward", c.reward, "null: unscored");
  member("unscored_reason", c.unscored_reason, "why");
  member("advantage", c.advantage, "over its group");
  member("counts", c.counts, "in the divisor");
  member("old_logps", c.old_logps, "of each id, before the rollout's first step");
  member("base_logps", c.base_logps, "of each id, under the base model");
  member.later("values", c.values, "of each id, by the value network");
  member.later("advantages", c.advantages, "of each id, where they differ");
  member.later("returns", c.returns, "of each id: what the value network learns");
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
  member("slots", r.cost.slots, "completions drawn at once", at_least(0));
};

}  // namespace

static void to_json(Json& json, const IdSpan& span) { json = Json::array({span.begin, span.end}); }
static void from_json(const Json& json, IdSpan& span) { span = {json.at(0), json.at(1)}; }
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
  Json line{{"prompt", c.prompt},
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
  if (!c.adapter.empty()) line["adapter"] = c.adapter;
  if (!c.failure.empty()) line["failure"] = c.failure;
  if (c.turns > 1) line.update({{"turns", c.turns}, {"text_begin", c.text_begin}, {"inserted", c.inserted}, {"transcript", c.transcript}});
  line["hash"] = hash_of_line(line);
  return line;
}

std::string hash_of_line(const Json& line) {
  Json plain = line;
  plain.erase("hash");
  return Hasher().add(dump_json(plain)).hex();
}

std::string rollout_path(const std::string& run_folder, int64_t number) {
  return fmt::format("{}/rollouts/rollout-{:06}.jsonl", run_folder, number);
}

}  // namespace forge
