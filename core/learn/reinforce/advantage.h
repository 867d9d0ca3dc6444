#pragma once
// Advantages: how much better each completion is than others of its prompt, computed from rewards.
//
//   Advantages made = make_advantages(rewards, {.baseline = Baseline::group, .scale = AdvantageScale::group});
//
// Rules. Group mean and deviation: GRPO (2402.03300). No deviation: Dr. GRPO (2503.20783). The
// others' mean: RLOO (2402.14740). Whitening over tokens: REINFORCE++ (2501.03262).
#include <cstdint>
#include <optional>
#include <vector>

#include "core/job/job.h"

namespace forge {

struct MeanAndDeviation {
  double mean = 0, deviation = 0;  // unbiased; 0 of one value
};
// Returns the moments of at least one value.
MeanAndDeviation moments_of(const std::vector<double>& values);

struct AdvantageRule {
  Baseline baseline = Baseline::group;
  AdvantageScale scale = AdvantageScale::group;
  double epsilon = 1e-4;  // added to a deviation
};

struct CompletionReward {
  int64_t group = 0;
  std::optional<double> reward;  // nothing: unscored
  int64_t tokens = 0;            // of the completion; its weight in batch whitening
};

struct Advantages {
  std::vector<double> values;  // for each completion; 0 for those that do not count
  // For each completion, whether it counts in the divisor: scored, with a token, and in a group
  // that was not dropped.
  std::vector<bool> counts;
  int64_t groups = 0;          // with a completion that counts
  int64_t flat_groups = 0;     // of these: all rewards equal, so that they give no gradient
  int64_t dropped_groups = 0;  // fewer than two scored completions, where a baseline needs others
};

// Computes the advantages. A deviation is the unbiased one of the group's scored rewards; below
// kFlatDeviation it counts as zero, and the group's advantages are 0. scale batch: with a group's
// baseline the deviation of all rewards that count (TRL's scale_rewards: batch); without one,
// whitening over tokens: (R − μ) / √max(σ², 1e-8), biased (OpenRLHF).
constexpr double kFlatDeviation = 1e-8;
Advantages make_advantages(const std::vector<CompletionReward>& rewards, const AdvantageRule& rule);

}  // namespace forge
