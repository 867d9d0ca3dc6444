// Tests ppo: advantages of every token and the value network's loss, by hand and against verl's own
// functions (tests/parity/make_value_goldens.py), in double.
#include "core/learn/reinforce/value.h"

#include "core/lib/base/file.h"
#include "tests/rollout/rollouts.h"

using namespace forge;

namespace {

void same(const std::vector<double>& values, const Json& expected) {
  REQUIRE(values.size() == expected.size());
  for (size_t t = 0; t < values.size(); ++t) CHECK(values[t] == Approx(expected[t].get<double>()).margin(1e-10).epsilon(0));
}

std::vector<float> narrowed(const Json& values) {
  std::vector<float> result;
  for (const Json& value : values) result.push_back(static_cast<float>(value.get<double>()));
  return result;
}

// Returns one completion of two tokens whose value network predicted 0.
Rollout two_tokens() {
  Rollout rollout = rollout_of({{2}}, {{1}});
  rollout.completions[0].values = {0, 0};
  return rollout;
}

}  // namespace

TEST_CASE("advantages, returns, value losses and gradients are verl's to 1e-10") {
  const Json goldens = parse_json(read_file(std::string(FORGE_SOURCE_DIR) + "/tests/rollout/goldens/value.json", 1 << 24, ErrorKind::internal),
                                  "value.json", ErrorKind::internal);
  int64_t compared = 0;
  for (const Json& golden : goldens["cases"]) {
    ObjectiveConfig objective = objective_with("{type: ppo, clip_high: 0.28, dual_clip: 3, epochs_per_rollout: 2}");
    PpoConfig& ppo = *objective.find<PpoConfig>();
    ppo.gamma_discount = golden["gamma"];
    ppo.lambda_policy = ppo.lambda_value = golden["lam"];
    ppo.value.clip = golden["clip"];
    std::vector<std::vector<int64_t>> lengths;
    std::vector<std::vector<double>> rewards;
    for (size_t i = 0; i < golden["values"].size(); ++i) {
      lengths.push_back({static_cast<int64_t>(golden["values"][i].size())});
      rewards.push_back({goldens["rewards"][i].get<double>()});
    }
    Rollout rollout = rollout_of(lengths, rewards);
    for (size_t i = 0; i < rollout.completions.size(); ++i) {
      rollout.completions[i].values = narrowed(golden["old_values"][i]);
      rollout.completions[i].old_logps = narrowed(golden["old_logps"][i]);
    }
    give_advantages(objective, rollout);
    const PolicyStep step = policy_step(objective, 8, rollout, 1);  // the first has no ratio
    double value_loss = 0, policy_loss = 0, clipped = 0;
    for (size_t i = 0; i < rollout.completions.size(); ++i) {
      const Completion& c = rollout.completions[i];
      same(c.advantages, golden["advantages"][i]);
      same(c.returns, golden["returns"][i]);
      const PolicyTokens values = value_tokens(objective.as<PpoConfig>(), step, c, golden["values"][i].get<std::vector<double>>());
      same(values.cotangents, golden["value_gradient"][i]);
      value_loss += values.loss / step.value_tokens;
      clipped += values.metrics.at("value_clip_share").sum;
      const PolicyTokens policy = policy_tokens(objective, step, c, golden["logps"][i].get<std::vector<double>>());
      same(policy.cotangents, golden["policy_gradient"][i]);
      policy_loss += policy.loss / step.divisor;
      ++compared;
    }
    CHECK(value_loss == Approx(golden["value_loss"].get<double>()).margin(1e-10).epsilon(0));
    CHECK(policy_loss == Approx(golden["policy_loss"].get<double>()).margin(1e-10).epsilon(0));
    CHECK(clipped / step.value_tokens == Approx(golden["clipped"].get<double>()).margin(1e-10));
  }
  CHECK(compared == 18);
}

TEST_CASE("a reward stands at the last token, and what the divergence costs at each") {
  const auto advantages = [](const std::string& keys) {
    Rollout rollout = two_tokens();
    rollout.completions[0].old_logps = {-1, -2};
    rollout.completions[0].base_logps = {-1.5F, -2.25F};
    give_advantages(objective_with("{type: ppo, advantage: {scale: none}, lambda_policy: 0.5" + keys + "}"), rollout);
    return rollout.completions[0].advantages;
  };
  CHECK(advantages("") == std::vector<double>{0.5, 1});
  CHECK(advantages(", gamma_discount: 0.5") == std::vector<double>{0.25, 1});
  CHECK(advantages(", kl: {weight: 0.5, estimator: k1, in: reward}") == std::vector<double>{-0.25 + 0.5 * (1 - 0.125), 1 - 0.125});
  CHECK(advantages(", kl: {weight: 0.5}") == std::vector<double>{0.5, 1});  // in the loss
}

TEST_CASE("the policy and the value network may look ahead differently") {
  Rollout rollout = two_tokens();
  rollout.completions[0].values = {0.5F, 0.25F};
  give_advantages(objective_with("{type: ppo, advantage: {scale: none}, lambda_policy: 0, lambda_value: 1}"), rollout);
  CHECK(rollout.completions[0].advantages == std::vector<double>{-0.25, 0.75});
  CHECK(rollout.completions[0].returns == std::vector<double>{1, 1});
  CHECK(lambda_of_length(0.05, 40) == Approx(0.5));
  CHECK(lambda_of_length(0.05, 10) == 0);
}

TEST_CASE("whitened over the tokens of a rollout") {
  std::vector<double> a{1, 2}, b{6};
  whiten_tokens({&a, &b});
  const double deviation = std::sqrt((4 + 1 + 9) / 2.0 + 1e-8);
  CHECK(a[0] == Approx(-2 / deviation));
  CHECK(b[0] == Approx(3 / deviation));
  std::vector<double> one{5};
  whiten_tokens({&one});
  CHECK(one[0] == 5);
}

TEST_CASE("a value that moved too far already is not pulled on") {
  const std::vector<double> old{0, 0, 0}, target{1, 1, 1};
  const ValueLoss loss = value_loss({0.1, 0.5, 2.5}, old, target, 0.2);
  CHECK(loss.cotangent == std::vector<double>{0.1 - 1, 0, 1.5});
  CHECK(loss.token_loss[1] == Approx(0.5 * 0.8 * 0.8));
  CHECK(loss.clipped == 1);
  CHECK(value_loss({0.1, 0.5, 2.5}, old, target, 0).cotangent == std::vector<double>{0.1 - 1, -0.5, 1.5});
}

TEST_CASE("completions without a score train neither network, and need no group") {
  Rollout rollout = rollout_of({{2}, {3}, {1}}, {{1}, {0}, {1}});
  for (Completion& c : rollout.completions) c.values.assign(c.ids.size(), 0);
  rollout.completions[1].reward.reset();
  const ObjectiveConfig objective = objective_with("ppo");
  give_advantages(objective, rollout);
  CHECK(rollout.groups == 2);
  CHECK(rollout.dropped_groups == 1);
  CHECK(rollout.flat_groups == 0);
  const PolicyStep step = policy_step(objective, 8, rollout, 0);
  CHECK(step.valued == std::vector<size_t>{0, 2});
  CHECK(step.trained == step.valued);
  CHECK(step.divisor == 3);
  CHECK(step.value_tokens == 3);
  CHECK(step.known);
}

TEST_CASE("the likelihood of what succeeded is divided by its own tokens") {
  Rollout rollout = rollout_of({{2}, {3}}, {{1}, {0}});
  for (Completion& c : rollout.completions) {
    c.values.assign(c.ids.size(), 0);
    c.parts = {{*c.reward, ""}};
  }
  const ObjectiveConfig with = objective_with("{type: ppo, success_nll: 0.5}"), without = objective_with("ppo");
  give_advantages(with, rollout);
  const PolicyStep step = policy_step(with, 8, rollout, 0), plain = policy_step(without, 8, rollout, 0);
  for (size_t i = 0; i < 2; ++i) {
    const Completion& c = rollout.completions[i];
    const std::vector<double> logps(c.ids.size(), -1.5);
    const PolicyTokens more = policy_tokens(with, step, c, logps), less = policy_tokens(without, plain, c, logps);
    const double expected = i == 0 ? -0.5 / 2 : 0;
    for (size_t t = 0; t < logps.size(); ++t) {
      CHECK(more.cotangents[t] - less.cotangents[t] == Approx(expected).margin(1e-12));
      CHECK(known_cotangents(with, step, c)[t] == Approx(more.cotangents[t]).margin(1e-12));
    }
    CHECK((more.loss - less.loss) / step.divisor == Approx(i == 0 ? 0.5 * 1.5 : 0).margin(1e-12));
  }
}
