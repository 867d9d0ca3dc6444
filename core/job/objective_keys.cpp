#include "core/job/objective_keys.h"

#include <algorithm>
#include <array>

namespace forge {
namespace {

using Types = std::vector<ObjectiveType>;
using enum ObjectiveType;

struct KeyOwners {
  const char* key;
  Types types;
};
const std::vector<KeyOwners>& owners() {
  static const std::vector<KeyOwners> all{
      {"train_on", {sft, pretrain}},
      {"label_smoothing", {sft, pretrain}},
      {"z_loss", {sft, pretrain}},
      {"loss", {dpo}},
      {"beta", {dpo, simpo, cpo, kto}},
      {"label_flip", {dpo}},
      {"nll_weight", {dpo, simpo, orpo, cpo}},
      {"nll_mean", {dpo, simpo, orpo, cpo}},
      {"nll_on", {dpo, simpo, orpo, cpo}},
      {"gamma", {simpo}},
      {"odds_weight", {orpo}},
      {"desirable_weight", {kto}},
      {"undesirable_weight", {kto}},
      {"center", {reward}},
      {"reference", {dpo, kto}},
      {"reference_cache", {dpo, kto}},
      {"policy", {grpo}},
      {"ratio", {grpo}},
      {"clip_low", {grpo, ppo}},
      {"clip_high", {grpo, ppo}},
      {"dual_clip", {grpo, ppo}},
      {"mean", {grpo, ppo}},
      {"advantage.baseline", {grpo}},
      {"advantage.scale", {grpo, ppo}},
      {"kl.weight", {grpo, ppo}},
      {"kl.measure", {grpo, ppo}},
      {"kl.estimator", {grpo, ppo}},
      {"kl.in", {grpo, ppo}},
      {"entropy_weight", {grpo, ppo}},
      {"updates_per_rollout", {grpo, ppo}},
      {"epochs_per_rollout", {grpo, ppo}},
      {"mask_truncated", {grpo, ppo}},
      {"gamma_discount", {ppo}},
      {"lambda_policy", {ppo}},
      {"lambda_value", {ppo}},
      {"lambda_length", {ppo}},
      {"success_nll", {ppo}},
      {"value.clip", {ppo}},
      {"value.learning_rate_ratio", {ppo}},
      {"value.pretrain_steps", {ppo}},
  };
  return all;
}

}  // namespace

std::vector<std::string> keys_without_effect(const ObjectiveConfig& objective) {
  std::vector<std::string> keys;
  for (const KeyOwners& row : owners())
    if (std::find(row.types.begin(), row.types.end(), objective.type) == row.types.end()) keys.push_back(row.key);
  return keys;
}

bool is_policy(ObjectiveType type) { return type == grpo || type == ppo; }

bool takes_label_flip(DpoLoss loss) {
  constexpr std::array takes{DpoLoss::sigmoid, DpoLoss::robust, DpoLoss::exo_pair};
  return std::find(takes.begin(), takes.end(), loss) != takes.end();
}

}  // namespace forge
