// Tests the parts of a step that couple completions: they are computed before the first
// micro-batch, with the right counts.
#include <cmath>

#include "core/job/job.h"
#include "core/learn/rollout/rollout_metrics.h"
#include "tests/rollout/rollouts.h"

using namespace forge;

namespace {

Rollout small() { return rollout_of({{3, 1}, {2, 2}, {4, 4}}, {{1, 0}, {1, 1}, {0, 2}}); }

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

}  // namespace

TEST_CASE("the divisor counts flat groups, and a flat group has no gradient") {
  Rollout rollout = small();
  const ObjectiveConfig objective = objective_with("grpo");
  give_advantages(objective, rollout);
  CHECK(rollout.groups == 3);
  CHECK(rollout.flat_groups == 1);
  const PolicyStep step = policy_step(objective, 8, rollout, 0);
  CHECK(step.divisor == 16);  // tokens, those of the flat group too
  CHECK(step.trained == std::vector<size_t>{0, 1, 4, 5});
  CHECK(step.known);
  CHECK(policy_step(objective_with("{type: grpo, mean: sequence}"), 8, rollout, 0).divisor == 6);
  CHECK(policy_step(objective_with("dr_grpo"), 8, rollout, 0).divisor == 48);
}

TEST_CASE("unscored completions leave their group, and truncated ones the loss where asked for") {
  Rollout rollout = small();
  rollout.completions[0].reward.reset();  // leaves a group of one
  rollout.completions[4].truncated = true;
  ObjectiveConfig objective = objective_with("grpo");
  give_advantages(objective, rollout);
  CHECK(rollout.dropped_groups == 1);
  CHECK(policy_step(objective, 8, rollout, 0).divisor == 12);
  objective.find<PolicyConfig>()->mask_truncated = true;
  const PolicyStep masked = policy_step(objective, 8, rollout, 0);
  CHECK(masked.divisor == 8);
  CHECK(masked.trained == std::vector<size_t>{5});
  CHECK(rollout.completions[5].advantage > 0);  // its group's mean knows the truncated one
}

TEST_CASE("updates of a rollout take its groups in turn, each once an epoch") {
  Rollout rollout = small();
  ObjectiveConfig objective = objective_with("{type: grpo, updates_per_rollout: 2, epochs_per_rollout: 3}");
  give_advantages(objective, rollout);
  CHECK(steps_per_rollout(objective.as<PolicyConfig>()) == 6);
  CHECK(needs_old_logps(objective));
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const PolicyStep first = policy_step(objective, 8, rollout, 2 * epoch), second = policy_step(objective, 8, rollout, 2 * epoch + 1);
    CHECK(first.trained == std::vector<size_t>{0, 1});
    CHECK(first.divisor == 4);
    CHECK(second.trained == std::vector<size_t>{4, 5});
    CHECK(second.divisor == 12);
    CHECK(first.known == (epoch == 0));
    CHECK_FALSE(second.known);
  }
}

TEST_CASE("gradients that are known beforehand are those of a ratio of 1") {
  for (const char* text : {"grpo", "dr_grpo", "dapo", "gspo", "cispo", "sapo", "{type: rloo, kl: {weight: 0}}",
                           "{type: reinforce++, kl: {weight: 0}}", "{type: grpo, mean: sequence, dual_clip: 3}"}) {
    INFO(text);
    const ObjectiveConfig objective = objective_with(text);
    Rollout rollout = small();
    give_advantages(objective, rollout);
    PolicyStep step = policy_step(objective, 8, rollout, 0);
    REQUIRE(step.known);
    for (const size_t i : step.trained) {
      const Completion& c = rollout.completions[i];
      std::vector<double> logps;
      for (size_t t = 0; t < c.ids.size(); ++t) logps.push_back(-0.5 - 0.1 * static_cast<double>(t + i));
      rollout.completions[i].old_logps = {logps.begin(), logps.end()};  // the sampler's are −1
      std::vector<double> before;
      for (const std::optional<double> correction : {std::optional<double>(), std::optional(1.2)}) {
        step.correction = correction;
        const std::vector<double> known = known_cotangents(objective, step, c), asked = policy_tokens(objective, step, c, logps).cotangents;
        REQUIRE(known.size() == asked.size());
        for (size_t t = 0; t < known.size(); ++t) CHECK(known[t] == Approx(asked[t]).margin(1e-15));
        CHECK(std::abs(sum_of(known)) > 0);
        CHECK(known != before);
        before = known;
      }
    }
  }
}

TEST_CASE("what must be asked is not taken for known") {
  Rollout rollout = small();
  for (Completion& c : rollout.completions) c.old_logps.assign(c.ids.size(), -1), c.base_logps.assign(c.ids.size(), -1);
  for (const char* text : {"gepo", "{type: grpo, kl: 0.1}", "{type: grpo, entropy_weight: 0.01}"}) {
    INFO(text);
    const ObjectiveConfig objective = objective_with(text);
    give_advantages(objective, rollout);
    CHECK_FALSE(policy_step(objective, 8, rollout, 0).known);
  }
  // A flat group still has a gradient of the divergence, and of the entropy.
  const ObjectiveConfig kl = objective_with("{type: grpo, kl: 0.1}");
  give_advantages(kl, rollout);
  CHECK(policy_step(kl, 8, rollout, 0).trained.size() == 6);
}

TEST_CASE("a bonus for entropy has a gradient of its own, against the loss, over the step's tokens") {
  Rollout rollout = rollout_of({{3, 1}}, {{1, 0}});
  for (Completion& c : rollout.completions) c.old_logps.assign(c.ids.size(), -1);
  const ObjectiveConfig objective = objective_with("{type: grpo, entropy_weight: 0.5}");
  give_advantages(objective, rollout);
  const PolicyStep step = policy_step(objective, 8, rollout, 0);
  REQUIRE(step.divisor == 4);
  CHECK(policy_tokens(objective, step, rollout.completions[0], {-1, -1, -1}).entropy_cotangent == Approx(-0.125));
  const ObjectiveConfig by_sequence = objective_with("{type: grpo, mean: sequence, entropy_weight: 0.5}");
  const PolicyStep each = policy_step(by_sequence, 8, rollout, 0);
  CHECK(policy_tokens(by_sequence, each, rollout.completions[0], {-1, -1, -1}).entropy_cotangent == Approx(-0.5 / 3 / 2));
}

TEST_CASE("a divergence subtracted from the reward moves advantages, by its sum over the completion") {
  Rollout rollout = rollout_of({{2, 1}}, {{1, 1}});
  rollout.completions[0].old_logps = {-1, -1}, rollout.completions[0].base_logps = {-1.5, -2};
  rollout.completions[1].old_logps = {-1}, rollout.completions[1].base_logps = {-1};
  const ObjectiveConfig objective = objective_with("{type: grpo, advantage: {scale: none}, kl: {weight: 0.5, estimator: k1, in: reward}}");
  CHECK(needs_old_logps(objective));
  give_advantages(objective, rollout);
  CHECK(rollout.completions[0].advantage == Approx(-0.375));  // 1 − 0.5 · 1.5 against 1
  CHECK(rollout.completions[1].advantage == Approx(0.375));
}

TEST_CASE("gepo divides by its own group's expectation") {
  Rollout rollout = rollout_of({{1, 1}, {3, 1}}, {{1, -1}, {1, -1}});
  rollout.completions[0].old_logps = {-3}, rollout.completions[1].old_logps = {-2};
  rollout.completions[2].old_logps = {-1.2F, -0.5F, -1.7F}, rollout.completions[3].old_logps = {-0.1F};
  const ObjectiveConfig objective = objective_with("{type: gepo, advantage: {scale: none}}");
  CHECK(needs_old_logps(objective));
  give_advantages(objective, rollout);
  const PolicyStep step = policy_step(objective, 8, rollout, 0);
  const PolicyTokens first = policy_tokens(objective, step, rollout.completions[2], {-1, -0.5, -2});
  const PolicyTokens second = policy_tokens(objective, step, rollout.completions[3], {-0.3});
  CHECK(first.metrics.at("ratio").sum / 3 == Approx(0.414172975).margin(1e-7));
  CHECK(first.ratio_most == Approx(0.414172975).margin(1e-7));
  CHECK(second.metrics.at("ratio").sum == Approx(0.985304141).margin(1e-7));
  CHECK(first.metrics.at("kl_old").sum == Approx(0.1).margin(1e-6));  // the old policy is unchanged
  CHECK(sum_of(first.cotangents) == Approx(-0.414172975 / 4).margin(1e-7));  // A = 1, over four sequences
}

TEST_CASE("tokens of older weights weigh what the weights of before say of them, up to a limit") {
  Rollout rollout = rollout_of({{3}}, {{1}});
  Completion& c = rollout.completions[0];
  c.sampler_logps = {-1, -2, -3}, c.old_logps = {-1.5F, -2, -1};
  const std::vector<double> weights = importance_weights(c, 2);
  CHECK(weights[0] == Approx(std::exp(-0.5)));
  CHECK(weights[1] == 1);
  CHECK(weights[2] == 2);  // e² otherwise
  const RolloutConfig none, stale{.server = {.max_staleness = 1}}, set{.correction = 3, .server = {.max_staleness = 1}};
  CHECK_FALSE(correction_limit(none));
  CHECK(correction_limit(stale) == 2);
  CHECK(correction_limit(set) == 3);
  const Json facts = correction_facts(rollout.completions, 2);
  CHECK(facts["correction"].get<double>() == Approx((std::exp(-0.5) + 3) / 3));
  CHECK(facts["correction_cut_share"].get<double>() == Approx(1.0 / 3));
}

TEST_CASE("a divergence in the loss is weighted as the loss is") {
  Rollout rollout = rollout_of({{2}}, {{0}});
  Completion& c = rollout.completions[0];
  c.old_logps = {-0.5F, -1}, c.base_logps = {-2, -2}, c.counts = true;  // without an advantage
  const ObjectiveConfig objective = objective_with("{type: grpo, kl: 0.1}");
  PolicyStep step{.trained = {0}, .divisor = 2, .first = true, .group_denominators = {}};
  const PolicyTokens plain = policy_tokens(objective, step, c, {-0.5, -1});
  step.correction = 5;
  const PolicyTokens weighted = policy_tokens(objective, step, c, {-0.5, -1});
  CHECK(weighted.cotangents[0] == Approx(std::exp(0.5) * plain.cotangents[0]));
  CHECK(weighted.cotangents[1] == Approx(plain.cotangents[1]));
  CHECK(plain.cotangents[0] > 0);
}
