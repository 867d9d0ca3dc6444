#include "core/learn/reinforce/value.h"

#include <algorithm>
#include <cmath>

#include "core/lib/base/error.h"

namespace forge {

std::vector<double> generalized_advantages(const std::vector<double>& rewards, const std::vector<double>& values,
                                           double gamma, double lambda) {
  FORGE_CHECK(rewards.size() == values.size(), "a reward and a value each token");
  std::vector<double> advantages(rewards.size());
  double next_value = 0, next_advantage = 0;
  for (size_t t = rewards.size(); t-- > 0;) {
    const double delta = rewards[t] + gamma * next_value - values[t];
    next_advantage = delta + gamma * lambda * next_advantage;
    next_value = values[t];
    advantages[t] = next_advantage;
  }
  return advantages;
}

double lambda_of_length(double alpha, int64_t tokens) {
  return std::max(0.0, 1 - 1 / (alpha * static_cast<double>(tokens)));
}

void whiten_tokens(const std::vector<std::vector<double>*>& completions) {
  constexpr double kEpsilon = 1e-8;
  double count = 0, mean = 0, variance = 0;
  const auto each = [&](auto use) {
    for (std::vector<double>* values : completions)
      for (double& value : *values) use(value);
  };
  each([&](double value) { ++count, mean += value; });
  if (count < 2) return;
  mean /= count;
  each([&](double value) { variance += (value - mean) * (value - mean); });
  const double scale = 1 / std::sqrt(variance / (count - 1) + kEpsilon);
  each([&](double& value) { value = (value - mean) * scale; });
}

ValueLoss value_loss(const std::vector<double>& values, const std::vector<double>& old_values, const std::vector<double>& returns,
                     double clip) {
  FORGE_CHECK(values.size() == returns.size() && values.size() == old_values.size(), "a value and a return each token");
  ValueLoss loss;
  for (size_t t = 0; t < values.size(); ++t) {
    const double off = values[t] - returns[t];
    const double held = clip > 0 ? std::clamp(values[t], old_values[t] - clip, old_values[t] + clip) - returns[t] : off;
    const bool saturated = held * held > off * off;
    loss.token_loss.push_back(0.5 * std::max(off * off, held * held));
    loss.cotangent.push_back(saturated ? 0 : off);
    loss.clipped += saturated;
  }
  return loss;
}

}  // namespace forge
