#include "core/learn/reinforce/policy.h"

#include <algorithm>
#include <cmath>

#include "core/lib/base/error.h"

namespace forge {
namespace {

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

enum class Limit { none, low, high, dual };

// A loss of one ratio, and its derivative by log r.
struct Term {
  double loss = 0, slope = 0;
  Limit limit = Limit::none;
};

Term clip_term(double r, double a, const PolicyRule& rule) {
  if (rule.dual_clip && a < 0 && r > *rule.dual_clip) return {-*rule.dual_clip * a, 0, Limit::dual};
  if (a >= 0 && r > 1 + rule.clip_high) return {-(1 + rule.clip_high) * a, 0, Limit::high};
  if (a < 0 && r < 1 - rule.clip_low) return {-(1 - rule.clip_low) * a, 0, Limit::low};
  return {-r * a, -a * r};
}

Term sapo_term(double r, double a, const PolicyRule& rule) {
  const double tau = a > 0 ? rule.temperature_positive : rule.temperature_negative;
  const double s = logistic(tau * (r - 1));
  return {-a * 4 * s / tau, -a * r * 4 * s * (1 - s)};
}

// Returns the loss of a ratio. `lp` is the log-probability in the ratio's numerator: the token's,
// or the mean or sum of the sequence.
Term term_of(double r, double lp, double a, const PolicyRule& rule) {
  switch (rule.term) {
    case PolicyTerm::clip:
      return clip_term(r, a, rule);
    case PolicyTerm::sapo:
      return sapo_term(r, a, rule);
    case PolicyTerm::cispo: {
      const double weight = std::min(r, 1 + rule.clip_high);
      return {-weight * a * lp, -a * weight, r > 1 + rule.clip_high ? Limit::high : Limit::none};
    }
    case PolicyTerm::reinforce:
      return {-a * lp, -a};
  }
  return {};
}

void count(PolicyLoss& loss, Limit limit) {
  loss.clipped_low += limit == Limit::low;
  loss.clipped_high += limit == Limit::high;
  loss.clipped_dual += limit == Limit::dual;
}

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

}  // namespace

PolicyLoss policy_loss(const std::vector<double>& lp, const std::vector<double>& lp_old, double advantage,
                       const PolicyRule& rule) {
  return policy_loss(lp, lp_old, std::vector<double>(lp.size(), advantage), rule);
}

PolicyLoss policy_loss(const std::vector<double>& lp, const std::vector<double>& lp_old, const std::vector<double>& advantages,
                       const PolicyRule& rule) {
  FORGE_CHECK(lp.size() == lp_old.size() && lp.size() == advantages.size(), "log-probabilities and advantages for other tokens");
  PolicyLoss loss;
  if (rule.ratio == PolicyRatio::token) {
    for (size_t t = 0; t < lp.size(); ++t) {
      const double r = std::exp(lp[t] - lp_old[t]);
      const Term term = term_of(r, lp[t], advantages[t], rule);
      loss.token_loss.push_back(term.loss);
      loss.cotangent.push_back(term.slope);
      loss.ratio.push_back(r);
      count(loss, term.limit);
    }
    return loss;
  }
  if (lp.empty()) return loss;
  const double each = rule.ratio == PolicyRatio::sum ? 1 : 1 / static_cast<double>(lp.size());
  const double numerator = each * sum_of(lp);
  const double log_denominator =
      rule.ratio == PolicyRatio::group ? std::log(rule.group_denominator) : each * sum_of(lp_old);
  const double r = std::exp(numerator - log_denominator);
  const Term term = term_of(r, numerator, advantages.front(), rule);
  loss.token_loss.assign(lp.size(), term.loss);
  loss.cotangent.assign(lp.size(), term.slope * each);
  loss.ratio.assign(lp.size(), r);
  for (size_t t = 0; t < lp.size(); ++t) count(loss, term.limit);
  return loss;
}

double group_denominator(const std::vector<std::vector<double>>& lp_old_of_group) {
  double sum = 0, squares = 0;
  for (const std::vector<double>& lp_old : lp_old_of_group) {
    if (lp_old.empty()) continue;
    const double q = std::exp(sum_of(lp_old) / static_cast<double>(lp_old.size()));
    sum += q;
    squares += q * q;
  }
  FORGE_CHECK(sum > 0, "a group without a token");
  return squares / sum;
}

double step_divisor(MeanOf mean, const std::vector<int64_t>& tokens, int64_t max_new_tokens) {
  double all = 0;
  for (const int64_t count : tokens) all += static_cast<double>(count);
  const auto sequences = static_cast<double>(tokens.size());
  switch (mean) {
    case MeanOf::token:
      return all;
    case MeanOf::sequence:
      return sequences;
    case MeanOf::constant:
      return sequences * static_cast<double>(max_new_tokens);
  }
  return 0;
}

double token_weight(MeanOf mean, int64_t tokens) {
  return mean == MeanOf::sequence ? 1 / static_cast<double>(tokens) : 1;
}

KlTerm kl_term(double lp, double lp_reference, KlEstimator estimator) {
  constexpr double kMost = 20;
  const double x = lp - lp_reference;
  switch (estimator) {
    case KlEstimator::k1:
      return {x, 1};
    case KlEstimator::k2:
      return {x * x / 2, x};
    case KlEstimator::k3: {
      const double d = std::min(-x, kMost);
      return {std::expm1(d) - d, -x > kMost ? 0 : x};
    }
  }
  return {};
}

}  // namespace forge
