// Compares with TRL's own losses on given completions and rewards
// (tests/parity/make_policy_goldens.py), in double.
#include <cmath>

#include "core/lib/base/file.h"
#include "tests/rollout/rollouts.h"

using namespace forge;

namespace {

std::string objective_text(const Json& keys) {
  std::string text = "{type: " + keys.value("type", std::string("grpo"));
  for (const auto& [key, value] : keys.items()) {
    if (key == "type") continue;
    const std::string shown = value.is_string() ? value.get<std::string>() : dump_json(value);
    text += key == "scale" ? ", advantage: {scale: " + shown + "}" : key == "kl" ? ", kl: {weight: " + shown + "}" : ", " + key + ": " + shown;
  }
  return text + "}";
}

std::vector<float> narrowed(const Json& values) {
  std::vector<float> result;
  for (const Json& value : values) result.push_back(static_cast<float>(value.get<double>()));
  return result;
}

}  // namespace

TEST_CASE("advantages, losses and gradients are TRL's to 1e-10") {
  const Json goldens = parse_json(read_file(std::string(FORGE_SOURCE_DIR) + "/tests/rollout/goldens/policy.json", 1 << 24, ErrorKind::internal),
                                  "policy.json", ErrorKind::internal);
  int64_t runs = 0, gradients = 0;
  for (const auto& [name, golden] : goldens["cases"].items()) {
    const ObjectiveConfig objective = objective_with(objective_text(golden["objective"]));
    for (const Json& run : golden["runs"]) {
      INFO(name << (run["on_policy"].get<bool>() ? ", on policy" : ", off policy"));
      std::vector<std::vector<int64_t>> lengths(goldens["rewards"].size());
      for (size_t i = 0; i < run["logps"].size(); ++i) lengths[i / 4].push_back(static_cast<int64_t>(run["logps"][i].size()));
      Rollout rollout = rollout_of(lengths, goldens["rewards"].get<std::vector<std::vector<double>>>());
      for (size_t i = 0; i < rollout.completions.size(); ++i) {
        rollout.completions[i].old_logps = narrowed(run["old_logps"][i]);
        if (run.contains("correction")) rollout.completions[i].sampler_logps = narrowed(run["drawn_logps"][i]);
        if (objective.find<PolicyConfig>()->kl.weight > 0) rollout.completions[i].base_logps = narrowed(run["base_logps"][i]);
      }
      give_advantages(objective, rollout);
      // The second step of a rollout is the one with a ratio.
      ObjectiveConfig twice = objective;
      twice.find<PolicyConfig>()->epochs_per_rollout = 2;
      PolicyStep step = policy_step(twice, goldens["max_new_tokens"], rollout, run["on_policy"].get<bool>() ? 0 : 1);
      if (run.contains("correction")) step.correction = run["correction"].get<double>();
      REQUIRE(step.divisor > 0);
      double loss = 0;
      for (size_t i = 0; i < rollout.completions.size(); ++i) {
        const Completion& c = rollout.completions[i];
        CHECK(c.advantage == Approx(run["advantages"][i].get<double>()).margin(1e-10).epsilon(0));
        const PolicyTokens tokens = policy_tokens(twice, step, c, run["logps"][i].get<std::vector<double>>());
        loss += tokens.loss / step.divisor;
        for (size_t t = 0; t < tokens.cotangents.size(); ++t) {
          CHECK(tokens.cotangents[t] == Approx(run["gradient"][i][t].get<double>()).margin(1e-10).epsilon(0));
          ++gradients;
        }
      }
      CHECK(loss == Approx(run["loss"].get<double>()).margin(1e-10).epsilon(0));
      ++runs;
    }
  }
  CHECK(runs == 28);
  CHECK(gradients == 28 * 44);
}
