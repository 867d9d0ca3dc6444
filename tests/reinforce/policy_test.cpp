// Tests the known answers of two sequences, of 3 tokens and 1, with A = +1 and −1, and compares
// every gradient with central differences.
#include "core/learn/reinforce/policy.h"

#include <cmath>
#include <functional>

#include "tests/test.h"

using namespace forge;

namespace {

const std::vector<double> kFirst{-1, -0.5, -2}, kFirstOld{-1.2, -0.5, -1.7}, kSecond{-0.3}, kSecondOld{-0.1};
constexpr PolicyRule kClip{.clip_low = 0.2, .clip_high = 0.2};

void check(const std::vector<double>& values, const std::vector<double>& expected) {
  REQUIRE(values.size() == expected.size());
  for (size_t i = 0; i < values.size(); ++i) CHECK(values[i] == Approx(expected[i]).margin(1e-9).epsilon(0));
}

// Returns the loss to which the cotangents belong: Σ over tokens with the token's ratio, else the
// sequence's.
double total(const PolicyLoss& loss, const PolicyRule& rule) {
  if (rule.ratio != PolicyRatio::token) return loss.token_loss[0];
  double sum = 0;
  for (const double one : loss.token_loss) sum += one;
  return sum;
}

double central_difference(const std::function<double(double)>& f, double x) {
  constexpr double h = 1e-6;
  return (f(x + h) - f(x - h)) / (2 * h);
}

double step_loss(MeanOf mean, int64_t max_new_tokens) {
  double sum = 0;
  for (const auto& [lp, old, advantage] :
       {std::tuple{kFirst, kFirstOld, 1.0}, std::tuple{kSecond, kSecondOld, -1.0}})
    for (const double one : policy_loss(lp, old, advantage, kClip).token_loss)
      sum += one * token_weight(mean, static_cast<int64_t>(lp.size()));
  return sum / step_divisor(mean, {3, 1}, max_new_tokens);
}

}  // namespace

TEST_CASE("losses and cotangents of the clipped token ratio") {
  const PolicyLoss first = policy_loss(kFirst, kFirstOld, 1, kClip),
                   second = policy_loss(kSecond, kSecondOld, -1, kClip);
  check(first.token_loss, {-1.2, -1, -0.740818221});
  check(first.cotangent, {0, -1, -0.740818221});
  check(second.token_loss, {0.818730753});
  check(second.cotangent, {0.818730753});
  CHECK(first.clipped_high == 1);
  CHECK(first.clipped_low + second.clipped_low + second.clipped_high == 0);
}

TEST_CASE("reductions by token, sequence and a constant") {
  CHECK(step_loss(MeanOf::token, 0) == Approx(-0.530521867).margin(1e-9).epsilon(0));
  CHECK(step_loss(MeanOf::sequence, 0) == Approx(-0.080770994).margin(1e-9).epsilon(0));
  CHECK(step_loss(MeanOf::constant, 4) == Approx(-0.265260933).margin(1e-9).epsilon(0));
}

TEST_CASE("the gradient passes at the edge and not beyond, each on its side") {
  const auto cotangent = [](double log_ratio, double advantage) {
    return policy_loss({log_ratio - 1}, {-1}, advantage, {.clip_low = 0.5, .clip_high = 1}).cotangent[0];
  };
  // Ratios of 2 and 0.5 are exact in floating point only as powers: exp(log 2) may miss by one
  // unit.
  const double high = std::nextafter(std::log(2.0), 0), low = std::nextafter(std::log(0.5), 0);
  CHECK(cotangent(high, 1) == Approx(-2));
  CHECK(cotangent(std::log(2.0) + 1e-9, 1) == 0);
  CHECK(cotangent(std::log(2.0) + 1, -1) == Approx(2 * std::exp(1)));
  CHECK(cotangent(low, -1) == Approx(0.5));
  CHECK(cotangent(std::log(0.5) - 1e-9, -1) == 0);
  CHECK(cotangent(std::log(0.5) - 1, 1) == Approx(-0.5 / std::exp(1)));
  CHECK(cotangent(5, 0) == 0);
  // At the exact edge, with limits computed from the ratios: r − 1 and 1 − r are exact for r
  // between 0.5 and 2.
  const double over = std::exp(0.25), under = std::exp(-0.25);
  const PolicyRule exact{.clip_low = 1 - under, .clip_high = over - 1};
  CHECK(policy_loss({0.25}, {0}, 1, exact).cotangent[0] == -over);
  CHECK(policy_loss({-0.25}, {0}, -1, exact).cotangent[0] == under);
  check(policy_loss({std::log(0.5)}, {0}, -1, kClip).token_loss, {0.8});
  check(policy_loss({std::log(3.0)}, {0}, 1, kClip).token_loss, {-1.2});
}

TEST_CASE("the dual clip ends what a bad token far from its sampler pushes") {
  const PolicyRule rule{.clip_low = 0.2, .clip_high = 0.2, .dual_clip = 3};
  const PolicyLoss far = policy_loss({std::log(5.0)}, {0}, -1, rule);
  check(far.token_loss, {3});
  check(far.cotangent, {0});
  CHECK(far.clipped_dual == 1);
  check(policy_loss({std::log(2.9)}, {0}, -1, rule).cotangent, {2.9});
  check(policy_loss({std::log(5.0)}, {0}, 1, rule).token_loss, {-1.2});
}

TEST_CASE("ratios of sequences, sums and groups") {
  PolicyRule rule = kClip;
  rule.ratio = PolicyRatio::sequence;
  CHECK(policy_loss(kFirst, kFirstOld, 1, rule).ratio[0] == Approx(0.967216100).margin(1e-9).epsilon(0));
  CHECK(policy_loss(kSecond, kSecondOld, -1, rule).ratio[0] == Approx(0.818730753).margin(1e-9).epsilon(0));
  check(policy_loss({-2, -1, -0.5}, {-1.7, -1.2, -0.5}, 1, rule).token_loss,
        policy_loss(kFirst, kFirstOld, 1, rule).token_loss);  // the order of tokens does not matter
  rule.ratio = PolicyRatio::sum;
  CHECK(policy_loss(kFirst, kFirstOld, 1, rule).ratio[0] == Approx(std::exp(-0.1)));
  check(policy_loss(kFirst, kFirstOld, 1, rule).cotangent, std::vector<double>(3, -std::exp(-0.1)));
  rule.ratio = PolicyRatio::group;
  rule.group_denominator = group_denominator({kFirstOld, kSecondOld});
  CHECK(policy_loss(kFirst, kFirstOld, 1, rule).ratio[0] == Approx(0.414172975).margin(1e-9).epsilon(0));
  CHECK(policy_loss(kSecond, kSecondOld, -1, rule).ratio[0] == Approx(0.985304141).margin(1e-9).epsilon(0));
  CHECK(policy_loss({}, {}, 1, rule).cotangent.empty());
}

TEST_CASE("sapo's known values") {
  const PolicyLoss good = policy_loss({0.2}, {0}, 1, {.term = PolicyTerm::sapo});
  check(good.token_loss, {-2.220502754});
  check(good.cotangent, {-1.206556160});
  const PolicyLoss bad = policy_loss({-0.2}, {0}, -1, {.term = PolicyTerm::sapo});
  check(bad.token_loss, {1.724037912});
  check(bad.cotangent, {0.811360348});
  check(policy_loss({-1}, {-1}, 3, {.term = PolicyTerm::sapo}).cotangent, {-3});
}

TEST_CASE("cispo weighs and never cuts") {
  const PolicyRule rule{.term = PolicyTerm::cispo, .clip_high = 0.5};
  const PolicyLoss loss = policy_loss({-1, -1}, {-1.1, -3}, 2, rule);
  check(loss.cotangent, {-2 * std::exp(0.1), -3});
  check(loss.token_loss, {2 * std::exp(0.1), 3});
  CHECK(loss.clipped_high == 1);
  check(policy_loss({-1}, {-3}, -2, rule).cotangent, {3});
}

TEST_CASE("on-policy every term is reinforce") {
  for (const PolicyTerm term : {PolicyTerm::clip, PolicyTerm::cispo, PolicyTerm::sapo, PolicyTerm::reinforce})
    for (const double advantage : {1.5, -0.7, 0.0})
      check(policy_loss(kFirst, kFirst, advantage, {.term = term}).cotangent,
            std::vector<double>(3, -advantage));
}

// Covers all terms, ratios and signs, at points away from the edges. The weight of cispo has no
// gradient, so it is held constant there.
TEST_CASE("gradients against central differences") {
  int compared = 0;
  for (const PolicyTerm term : {PolicyTerm::clip, PolicyTerm::sapo, PolicyTerm::reinforce})
    for (const PolicyRatio ratio :
         {PolicyRatio::token, PolicyRatio::sequence, PolicyRatio::sum, PolicyRatio::group})
      for (const double advantage : {0.8, -1.3})
        for (const double shift : {-1.0, -0.05, 0.0, 0.07, 1.0}) {
          PolicyRule rule{.term = term, .ratio = ratio, .dual_clip = 4.0, .group_denominator = 0.3};
          std::vector<double> lp{-1.03 + shift, -0.41, -2.02 - shift / 3}, old{-1.0, -0.5, -1.9};
          const PolicyLoss loss = policy_loss(lp, old, advantage, rule);
          for (size_t t = 0; t < lp.size(); ++t, ++compared) {
            const double slope = central_difference(
                [&](double x) {
                  std::vector<double> moved = lp;
                  moved[t] = x;
                  return total(policy_loss(moved, old, advantage, rule), rule);
                },
                lp[t]);
            INFO("term " << static_cast<int>(term) << " ratio " << static_cast<int>(ratio) << " A "
                         << advantage << " shift " << shift);
            CHECK(loss.cotangent[t] == Approx(slope).margin(1e-7).epsilon(1e-6));
          }
        }
  CHECK(compared == 3 * 4 * 2 * 5 * 3);
}

TEST_CASE("estimators of the divergence") {
  const auto value = [](double x, KlEstimator estimator) { return kl_term(x - 3, -3, estimator).value; };
  CHECK(value(0.1, KlEstimator::k1) == Approx(0.1));
  CHECK(value(-0.1, KlEstimator::k1) == Approx(-0.1));
  CHECK(value(0.1, KlEstimator::k2) == Approx(0.005));
  CHECK(value(0.1, KlEstimator::k3) == Approx(0.004837418).margin(1e-9).epsilon(0));
  CHECK(value(-0.1, KlEstimator::k3) == Approx(0.005170918).margin(1e-9).epsilon(0));
  for (const KlEstimator estimator : {KlEstimator::k1, KlEstimator::k2, KlEstimator::k3})
    CHECK(value(0, estimator) == 0);
  CHECK(value(5, KlEstimator::k3) == Approx(std::exp(-5) + 4));
  CHECK(value(-19, KlEstimator::k3) == Approx(std::exp(19) - 20));
  CHECK(value(-40, KlEstimator::k3) == Approx(std::exp(20) - 21));
  CHECK(kl_term(0, 0.25, KlEstimator::k1).cotangent == 1);
  CHECK(kl_term(0, 0.25, KlEstimator::k2).cotangent == -0.25);
  CHECK(kl_term(0, 0.25, KlEstimator::k3).cotangent == -0.25);  // k2's, the gradient of the true divergence
  CHECK(kl_term(0, 21, KlEstimator::k3).cotangent == 0);
  CHECK(kl_term(21, 0, KlEstimator::k3).cotangent == 21);
}

// On a distribution of three tokens E[k1] = E[k3] = KL, and E over π of x · ∇log π is its gradient.
TEST_CASE("the estimators mean what they estimate") {
  const std::vector<double> p{0.5, 0.3, 0.2}, q{0.4, 0.4, 0.2};
  double kl = 0, k1 = 0, k3 = 0;
  for (size_t i = 0; i < 3; ++i) {
    kl += p[i] * std::log(p[i] / q[i]);
    k1 += p[i] * kl_term(std::log(p[i]), std::log(q[i]), KlEstimator::k1).value;
    k3 += p[i] * kl_term(std::log(p[i]), std::log(q[i]), KlEstimator::k3).value;
  }
  CHECK(k1 == Approx(kl));
  CHECK(k3 == Approx(kl));
  const auto divergence = [&](double first) {  // by the logit of the first token
    std::vector<double> weights{std::exp(first), 0.3, 0.2};
    const double sum = weights[0] + 0.5;
    double total = 0;
    for (size_t i = 0; i < 3; ++i) total += weights[i] / sum * std::log(weights[i] / sum / q[i]);
    return total;
  };
  double gradient = 0;
  for (size_t i = 0; i < 3; ++i)
    gradient += p[i] * kl_term(std::log(p[i]), std::log(q[i]), KlEstimator::k3).cotangent * ((i == 0) - p[0]);
  CHECK(gradient == Approx(central_difference(divergence, std::log(0.5))).margin(1e-8));
}
