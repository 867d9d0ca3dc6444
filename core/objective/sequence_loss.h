#pragma once
// The loss of the answers of one micro-batch, and how each answer's log-probability pulls on it.
#include <map>
#include <string>
#include <vector>

#include "core/objective/objective.h"

namespace forge {

// A mean over a step: of answers, pairs or tokens, each metric over its own.
struct Mean {
  double sum = 0, count = 0;
};
using Metrics = std::map<std::string, Mean>;

// What all micro-batches of one optimizer step share, so that they only add.
struct StepScale {
  double divisor = 1;        // of the whole step: supervised tokens by weight, answers, or pairs
  double loss_scale = 1;     // of fp16
  double chosen_tokens = 0;  // of the step, where nll_mean is token
  double divergence = 0;     // kto
  double tokens = 0;         // of the whole step, where a model balances its experts
};

struct SequenceLoss {
  double loss = 0;                 // Σ over pairs or answers, before division
  std::vector<double> cotangents;  // by sequence: ∂ (loss / divisor) / ∂ s, of each of its tokens' logp
  std::vector<double> other_cotangents;  // of each token that the likelihood alone counts
  Metrics metrics;
};

// `answers` of objectives over pairs are chosen and rejected in turn. The NLL term is −nll_weight · a of the chosen answer, or
// under nll_mean: token −nll_weight · s · divisor / chosen_tokens; under nll_on: all over the whole chosen text. `objective` comes from with_defaults().
//
// Metrics: reward_chosen, reward_rejected, reward_margin (Objective::reward; of kto's desirable and undesirable answers the
// first two), reward_accuracy (1 where the chosen answer's is higher, ½ where they are equal; of kto 1 where a desirable answer
// is past the divergence and an undesirable one is not), of log-probabilities logp_chosen, logp_rejected (s), with a
// reference logp_chosen_change and logp_rejected_change (l), of pairs nll (−a of the chosen answer), of kto kl.
SequenceLoss sequence_loss(const ObjectiveConfig& objective, const std::vector<SequenceSums>& answers, const StepScale& scale);

void add(Metrics& sums, const Metrics& more);

// The means by name. Where answers come one by one, reward_margin is the difference of both classes' means.
std::map<std::string, double> means_of(const Metrics& metrics);

}  // namespace forge
