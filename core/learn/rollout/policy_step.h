#pragma once
// Selects the completions of a rollout that an optimizer step trains, and computes each drawn
// token's part of the loss.
//
//   give_advantages(objective, rollout);
//   PolicyStep step = policy_step(objective, max_new_tokens, rollout, update);
//   PolicyTokens tokens = policy_tokens(objective, step, rollout.completions[i], logps);
//
// Everything that couples completions (advantages, the divisor, a group's denominator) is a number
// here before the first micro-batch, so that micro-batches only add. The divisor D is that of the
// whole optimizer step. With w a token's weight (1, or 1 / tokens where each completion is a mean
// of its own) and l its loss (core/learn/reinforce/policy.h):
//
//   loss = Σ w (l + kl · k − entropy · H) / D
//
// Under ppo every token has an advantage of its own, by generalised advantage estimation over what
// a value network foresaw: the reward stands at the last token, and what the divergence costs,
// where it is taken off the reward, at each. A weight of success_nll adds − Σ lp / D' over the D'
// tokens of the step's completions that succeeded (VAPO).
//
// On the first step of a rollout the policy has not changed yet: r = 1, and the gradient of a token
// is −A w / D whatever its log-probability turns out to be.
//
// If older weights drew, or a server with other numbers, each token's l and kl are also multiplied
// by a constant, its truncated importance weight min(exp(lp_old − lp_drawn), C). lp_old is the
// trainer's log-probability from before the rollout's first step, lp_drawn the server's.
//
// Old log-probabilities come from the trainer's own forward, never from the decoder, whose numbers
// are a metric of health (sampler_gap).
#include <optional>

#include "core/learn/objective/sequence_loss.h"
#include "core/learn/reinforce/policy.h"
#include "core/learn/rollout/rollout.h"

namespace forge {

// Converts rewards to advantages, less the cost of the divergence from the base where it is taken
// off the reward. Fills advantage, counts and the rollout's groups. With a value network (ppo),
// completions need `values` before.
void give_advantages(const ObjectiveConfig& objective, Rollout& rollout);

// True if log-probabilities of the policy that drew must be known before the advantages are.
bool needs_old_logps(const ObjectiveConfig& objective);

int64_t steps_per_rollout(const PolicyConfig& policy);

struct PolicyStep {
  std::vector<size_t> trained;  // completions with a gradient, by their place in the rollout
  double divisor = 0;           // 0: nothing counts
  std::vector<size_t> valued;   // completions that train the value network; none without one
  double value_tokens = 0;      // of them
  double success_tokens = 0;    // of completions that succeeded, where their likelihood has a weight
  // True on the rollout's first step: the ratio is 1.
  bool first = false;
  // True if the gradient of each token is known before the policy is asked.
  bool known = false;
  std::vector<double> group_denominators;  // by group; empty unless the ratio is the group's
  std::optional<double> correction;        // C; nothing: every token weighs 1
};

// Returns the importance weight of each drawn token; `completion` has its old log-probabilities.
std::vector<double> importance_weights(const Completion& completion, double limit);

// Returns step `update` of the rollout's steps_per_rollout(). The rollout's groups are split into
// updates_per_rollout parts, in order, and gone through epochs_per_rollout times. Completions
// without a gradient are left out of `trained`, not out of the divisor: left out of both, they
// would raise the learning rate silently.
PolicyStep policy_step(const ObjectiveConfig& objective, int64_t max_new_tokens, const Rollout& rollout, int64_t update);

struct PolicyTokens {
  std::vector<double> cotangents;  // ∂ loss / ∂ logp of each token, divided
  double entropy_cotangent = 0;    // ∂ loss / ∂ entropy of each token, divided
  double loss = 0;                 // Σ before division
  Metrics metrics;                 // over tokens
  double ratio_most = 0;           // largest ratio of a token
};
// Returns the loss and the cotangents of a completion. `logps` are those of each drawn token under
// the policy that is trained.
PolicyTokens policy_tokens(const ObjectiveConfig& objective, const PolicyStep& step, const Completion& completion,
                           const std::vector<double>& logps);
// Like policy_tokens(), for the value network's values of the completion: cotangents of each
// token's value.
PolicyTokens value_tokens(const PpoConfig& objective, const PolicyStep& step, const Completion& completion,
                          const std::vector<double>& values);
// Returns the cotangents of a step that is known.
std::vector<double> known_cotangents(const ObjectiveConfig& objective, const PolicyStep& step, const Completion& completion);

}  // namespace forge
