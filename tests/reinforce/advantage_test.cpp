// Known answers, worked by hand: rewards (1, 0, 0, 0) have mean 0.25 and an unbiased deviation of
// 0.5.
#include "core/learn/reinforce/advantage.h"
#include "core/learn/reinforce/value.h"

#include <cmath>
#include <random>

#include "tests/test.h"

using namespace forge;

namespace {

std::vector<CompletionReward> group_of(const std::vector<double>& rewards, int64_t group = 0,
                                       int64_t tokens = 3) {
  std::vector<CompletionReward> all;
  for (const double reward : rewards) all.push_back({group, reward, tokens});
  return all;
}

void check(const std::vector<double>& values, const std::vector<double>& expected) {
  REQUIRE(values.size() == expected.size());
  for (size_t i = 0; i < values.size(); ++i) CHECK(values[i] == Approx(expected[i]).margin(1e-12));
}

std::vector<double> advantages(const std::vector<CompletionReward>& rewards, const AdvantageRule& rule) {
  return make_advantages(rewards, rule).values;
}

}  // namespace

TEST_CASE("one success of four") {
  const std::vector<CompletionReward> rewards = group_of({1, 0, 0, 0});
  check(advantages(rewards, {.epsilon = 0}), {1.5, -0.5, -0.5, -0.5});
  check(advantages(rewards, {}), {0.75 / 0.5001, -0.25 / 0.5001, -0.25 / 0.5001, -0.25 / 0.5001});
  check(advantages(rewards, {.scale = AdvantageScale::none}), {0.75, -0.25, -0.25, -0.25});
  check(advantages(rewards, {.baseline = Baseline::others, .scale = AdvantageScale::none}),
        {1, -1.0 / 3, -1.0 / 3, -1.0 / 3});
  check(advantages(rewards, {.baseline = Baseline::none, .scale = AdvantageScale::none}), {1, 0, 0, 0});
}

TEST_CASE("leaving one out is n/(n-1) times the group's baseline") {
  std::mt19937 random(1);
  for (size_t n = 2; n < 9; ++n) {
    std::vector<double> rewards;
    for (size_t i = 0; i < n; ++i) rewards.push_back(static_cast<double>(random() % 1000) / 100);
    const auto with = advantages(group_of(rewards), {.scale = AdvantageScale::none});
    const auto without =
        advantages(group_of(rewards), {.baseline = Baseline::others, .scale = AdvantageScale::none});
    for (size_t i = 0; i < n; ++i) {
      double others = 0;
      for (size_t k = 0; k < n; ++k) others += k == i ? 0 : rewards[k] / static_cast<double>(n - 1);
      CHECK(without[i] == Approx(rewards[i] - others).margin(1e-9));
      CHECK(without[i] == Approx(with[i] * static_cast<double>(n) / static_cast<double>(n - 1)).margin(1e-9));
    }
  }
}

TEST_CASE("a flat group teaches nothing and stays in the divisor") {
  for (const AdvantageScale scale : {AdvantageScale::group, AdvantageScale::none}) {
    const Advantages made = make_advantages(group_of({0.1, 0.1, 0.1, 0.1}), {.scale = scale});
    for (size_t i = 0; i < 4; ++i) {
      CHECK(made.values[i] == 0);
      CHECK(made.counts[i]);
    }
    CHECK(made.flat_groups == 1);
    CHECK(made.groups == 1);
  }
  CHECK(make_advantages(group_of({1, 1.0000001}), {}).flat_groups == 0);
}

TEST_CASE("an unscored completion leaves its group") {
  std::vector<CompletionReward> rewards = group_of({1, 0, 5});
  rewards[2].reward.reset();
  const Advantages made = make_advantages(rewards, {.scale = AdvantageScale::none});
  check(made.values, {0.5, -0.5, 0});
  CHECK(made.counts == std::vector<bool>{true, true, false});
  rewards[1].tokens = 0;  // nothing to train on
  const Advantages alone = make_advantages(rewards, {});
  check(alone.values, {0, 0, 0});
  CHECK(alone.counts == std::vector<bool>{false, false, false});
  CHECK(alone.dropped_groups == 1);
  CHECK(alone.groups == 0);
  CHECK(make_advantages(rewards, {.baseline = Baseline::none, .scale = AdvantageScale::none}).counts[0]);
}

TEST_CASE("groups do not mix") {
  std::vector<CompletionReward> rewards = group_of({1, 0}, 7);
  for (const CompletionReward& other : group_of({10, 20}, 3)) rewards.push_back(other);
  check(advantages(rewards, {.scale = AdvantageScale::none}), {0.5, -0.5, -5, 5});
}

// (1, 0) and (3, 1): group means 0.5 and 2; all four have mean 1.25 and an unbiased deviation of
// √(4.75 / 3).
TEST_CASE("batch scale divides by the deviation of all rewards") {
  std::vector<CompletionReward> rewards = group_of({1, 0}, 0);
  for (const CompletionReward& other : group_of({3, 1}, 1)) rewards.push_back(other);
  const double deviation = std::sqrt(4.75 / 3) + 1e-4;
  check(advantages(rewards, {.scale = AdvantageScale::batch}),
        {0.5 / deviation, -0.5 / deviation, 1 / deviation, -1 / deviation});
}

// 3 tokens of reward 4 and 1 of reward 0: mean 3, biased variance (3·1 + 9)/4 = 3.
TEST_CASE("without a baseline the batch is whitened over tokens") {
  const std::vector<CompletionReward> rewards{{0, 4.0, 3}, {1, 0.0, 1}};
  check(advantages(rewards, {.baseline = Baseline::none, .scale = AdvantageScale::batch}),
        {1 / std::sqrt(3.0), -3 / std::sqrt(3.0)});
}

TEST_CASE("generalised advantages against a table of five steps") {
  check(generalized_advantages({0, 0, 0, 0, 1}, {.1, .2, .3, .4, .5}, 1, 0.95),
        {0.778240625, 0.7139375, 0.64625, 0.575, 0.5});
  // γ = λ = 1: the sum of this and all later rewards minus the value.
  check(generalized_advantages({1, 2, 3, 4, 5}, {.1, .2, .3, .4, .5}, 1, 1),
        {14.9, 13.8, 11.7, 8.6, 4.5});
  // γ = 0.5, λ = 1: δ = (1 + 0.5·2 − 1, 1 − 2) = (1, −1), A = (1 − 0.5, −1).
  check(generalized_advantages({1, 1}, {1, 2}, 0.5, 1), {0.5, -1});
}
