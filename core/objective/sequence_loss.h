#pragma once
// The loss of the answers of one micro-batch, and how each answer's log-probability pulls on it.
#include <map>
#include <string>
#include <vector>

#include "core/objective/objective.h"

namespace forge {

// Sums over pairs by the metric's name; over the pairs of a step their means are what metrics.jsonl tells.
using MetricSums = std::map<std::string, double>;

struct SequenceLoss {
  double loss = 0;                // Σ over the pairs, before division
  std::vector<double> cotangents; // by sequence: ∂ (loss / divisor) / ∂ s, of each of its tokens' logp
  MetricSums metrics;
};

// `answers` are chosen and rejected in turn; `divisor` is the number of pairs of the whole optimizer step. The NLL term
// is −nll_weight · a of the chosen answer. `objective` comes from with_defaults().
//
// Metrics: reward_chosen, reward_rejected, reward_margin (Objective::reward), reward_accuracy (1 where the chosen
// answer's is higher, ½ where they are equal), logp_chosen, logp_rejected (s), with a reference logp_chosen_change
// and logp_rejected_change (l), nll (−a of the chosen answer).
SequenceLoss sequence_loss(const ObjectiveConfig& objective, const std::vector<SequenceSums>& answers, double divisor);

void add(MetricSums& sums, const MetricSums& more);

}  // namespace forge
