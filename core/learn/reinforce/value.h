#pragma once
// The value network: the loss that it is trained on, and the advantages that a policy gets from its
// predictions of rewards.
//
//   std::vector<double> advantages = generalized_advantages(rewards, values, gamma, lambda);
//   ValueLoss loss = value_loss(values, old_values, returns, clip);       // before the divisor of the step
//
// PPO (1707.06347) with the clipped value loss of its implementations (TRL 1.12, verl):
//
//   l = ½ max((V − R)², (clip(V, V_old ± c) − R)²)      ∂l/∂V = V − R, or 0 where the clipped one is larger
#include <cstdint>
#include <vector>

namespace forge {

// Returns generalised advantage estimates (1506.02438): δ = ρ + γ V' − V, A = δ + γ λ A', with V'
// and A' of the next token, 0 after the last.
std::vector<double> generalized_advantages(const std::vector<double>& rewards, const std::vector<double>& values,
                                           double gamma, double lambda);

// Returns λ of a completion of so many tokens: 1 − 1 / (α tokens), at least 0 (VAPO, 2504.05118).
double lambda_of_length(double alpha, int64_t tokens);

// Scales values to mean 0 and deviation 1 over all tokens of all completions: (A − μ) / √(σ² +
// 1e-8), σ² unbiased. Fewer than two tokens stay unchanged.
void whiten_tokens(const std::vector<std::vector<double>*>& completions);

struct ValueLoss {
  std::vector<double> token_loss, cotangent;  // by token
  int64_t clipped = 0;                        // tokens without a gradient
};
// Returns the value loss; clip 0: without clipping.
ValueLoss value_loss(const std::vector<double>& values, const std::vector<double>& old_values, const std::vector<double>& returns,
                     double clip);

}  // namespace forge
