#pragma once
// The loss of the answers of one micro-batch, and its gradient by each answer's log-probability.
#include <map>
#include <string>
#include <vector>

#include "core/learn/objective/objective.h"

namespace forge {

// A mean over a step: over answers, pairs or tokens. Each metric has its own count.
struct Mean {
  double sum = 0, count = 0;
  void add(double value) { sum += value, ++count; }
};
using Metrics = std::map<std::string, Mean>;

// Numbers that all micro-batches of one optimizer step share, so that their losses can simply be
// added.
struct StepScale {
  double divisor = 1;        // of the whole step: supervised tokens by weight, answers, or pairs
  double loss_scale = 1;     // of fp16
  double chosen_tokens = 0;  // of the step, where nll_mean is token
  double divergence = 0;     // kto
  double tokens = 0;         // of the whole step, where a model balances its experts
};

struct SequenceLoss {
  double loss = 0;                 // Σ over pairs or answers, before division
  // ∂ (loss / divisor) / ∂ s of each sequence, for each of its tokens' logp.
  std::vector<double> cotangents;
  // Like cotangents, for tokens that only the likelihood counts.
  std::vector<double> other_cotangents;
  Metrics metrics;
};

// Returns the loss of `answers`. For objectives over pairs they are chosen and rejected in turn.
// The NLL term is −nll_weight · a of the chosen answer, or under nll_mean: token −nll_weight · s ·
// divisor / chosen_tokens; under nll_on: all it covers the whole chosen text. `objective` comes
// from with_defaults().
//
// Metrics: reward_chosen, reward_rejected and, for pairs, reward_margin (Objective::reward; for kto
// the desirable and the undesirable answers); reward_accuracy (1 where the chosen answer's reward
// is higher, ½ where they are equal; for kto 1 where a desirable answer is past the divergence or
// an undesirable one is not); for objectives of log-probabilities logp_chosen, logp_rejected (s)
// and with a reference logp_chosen_change and logp_rejected_change (l); for pairs nll (−a of the
// chosen answer); for kto kl.
SequenceLoss sequence_loss(const ObjectiveConfig& objective, const std::vector<SequenceSums>& answers, const StepScale& scale);

void add(Metrics& sums, const Metrics& more);

// Returns the means by name. Where answers come one by one, reward_margin is the difference of both
// classes' means.
std::map<std::string, double> means_of(const Metrics& metrics);

}  // namespace forge
