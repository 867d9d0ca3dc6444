#pragma once
// The policy's loss of one sequence, and its gradient by each token's log-probability.
//
//   PolicyLoss loss = policy_loss(tokens, advantage, {.clip_low = 0.2, .clip_high = 0.28});
//   loss.token_loss[t], loss.cotangent[t]      // before the divisor of the step
//
// With r the ratio, A the advantage, and gate = (A ≥ 0 and r ≤ 1 + ε_high) or (A < 0 and r ≥ 1 −
// ε_low):
//
//   clip       l = −min(r A, clip(r) A)            ∂l/∂lp = −A r · gate      PPO 1707.06347, DAPO 2503.14476
//   + dual     A < 0 and r > c: l = −c A           0                         1912.09729
//   cispo      l = −min(r, 1 + ε_high) A lp        −A min(r, 1 + ε_high)     2506.13585; the weight has no gradient
//   sapo       l = −A · 4 σ(τ (r − 1)) / τ         −A r · 4 σ'(τ (r − 1))    2511.20347
//   reinforce  l = −A lp                           −A
//
// Ratios: of the token; of the sequence, exp(mean(lp − lp_old)) (GSPO 2507.18071); of the sum,
// exp(Σ(lp − lp_old)) (RLOO); of the group (GEPO), whose denominator is given. With a ratio of the
// sequence every token has the same loss. The sequence's loss is their mean (for the sum: their
// common value, once), and the cotangents are those of this one loss.
#include <cstdint>
#include <optional>
#include <vector>

#include "core/job/job.h"

namespace forge {

struct PolicyRule {
  PolicyTerm term = PolicyTerm::clip;
  PolicyRatio ratio = PolicyRatio::token;
  double clip_low = 0.2, clip_high = 0.28;                         // widths: 1 − low … 1 + high
  std::optional<double> dual_clip;                                 // above 1
  double temperature_positive = 1.0, temperature_negative = 1.05;  // τ of sapo by the sign of A
  double group_denominator = 1;  // for the group's ratio: group_denominator() below
};

struct PolicyLoss {
  std::vector<double> token_loss;  // by token
  // ∂/∂lp of token_loss[t] with the token's ratio, else of the sequence's one loss.
  std::vector<double>
      cotangent;
  std::vector<double> ratio;
  int64_t clipped_low = 0, clipped_high = 0, clipped_dual = 0;  // tokens without a gradient, by which limit
};

// Returns the loss of a sequence. The log-probabilities are those of the completion's trained
// tokens, all finite. There are as many advantages, which are equal unless the ratio is the
// token's.
PolicyLoss policy_loss(const std::vector<double>& lp, const std::vector<double>& lp_old, const std::vector<double>& advantages,
                       const PolicyRule& rule);
// Like policy_loss() above, with one advantage for all tokens.
PolicyLoss policy_loss(const std::vector<double>& lp, const std::vector<double>& lp_old, double advantage,
                       const PolicyRule& rule);

// Returns GEPO's denominator in its authors' form: Σ_j q̂_j q_j with q_j = exp(mean lp_old of
// completion j) and q̂ = q / Σ q.
double group_denominator(const std::vector<std::vector<double>>& lp_old_of_group);

// Returns the divisor of the step's sum: tokens; sequences (each is a mean over its own tokens
// then); or sequences times max_new_tokens (Dr. GRPO). `tokens` are the numbers of trained tokens
// of the completions that count.
double step_divisor(MeanOf mean, const std::vector<int64_t>& tokens, int64_t max_new_tokens);
// Returns the weight of a token of a completion with so many tokens in that sum: 1, or 1 / tokens
// for sequences.
double token_weight(MeanOf mean, int64_t tokens);

struct KlTerm {
  double value = 0;      // ≥ 0 for k2 and k3
  double cotangent = 0;  // by lp
};
// Returns an estimate of KL(π ‖ π_ref) on a token drawn from π, with x = lp − lp_ref (Schulman,
// "Approximating KL Divergence"):
//   k1  x, gradient 1: only for rewards. k2  x²/2, x. k3  expm1(−x) + x; back-propagated as x, the gradient of the true
//   divergence, which is k2's.
// The exponent is limited to 20, beyond which k3 has no gradient.
KlTerm kl_term(double lp, double lp_reference, KlEstimator estimator);

}  // namespace forge
