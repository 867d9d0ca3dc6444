// Tests that a server that draws without the adapter, or with other weights, is distinguished from
// rounding.
#include "core/learn/rollout/same_weights.h"
#include "core/lib/base/random.h"
#include "tests/rollout/rollouts.h"

using namespace forge;

namespace {

// Returns a rollout in which a share `effect` of the adapter's changes, which are `change` a token,
// was applied, plus noise.
Rollout drawn_with(double effect, double change, double noise, int64_t tokens = 200) {
  Rollout rollout;
  Completion c{.adapter = "step-000001-0"};
  for (int64_t t = 0; t < tokens; ++t) {
    const double base = -2, policy = base + change * normal(1, 1, static_cast<uint64_t>(t));
    c.sampler_logps.push_back(static_cast<float>(base + effect * (policy - base) + noise * normal(1, 2, static_cast<uint64_t>(t))));
    c.old_logps.push_back(static_cast<float>(policy));
    c.base_logps.push_back(static_cast<float>(base));
  }
  rollout.completions.push_back(std::move(c));
  return rollout;
}

std::string said(const Rollout& rollout, double max_gap = 0.1) {
  try {
    require_same_weights(rollout, {.url = "http://s/v1", .max_gap = max_gap});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a server that applies the adapter passes, whatever its rounding") {
  for (const double change : {0.0, 1e-4, 0.02, 1.0}) CHECK(said(drawn_with(1, change, 0.03)) == "");
  const WeightsSeen seen = weights_seen(drawn_with(1, 0.5, 0.03).completions);
  CHECK(seen.effect == Approx(1).margin(3 * seen.error));
  CHECK(seen.gap == Approx(0.03 * 0.798).epsilon(0.2));  // the mean of |normal|
  CHECK(seen.tokens == 200);
}

TEST_CASE("a server that ignores the adapter is noticed as soon as its effect can be seen") {
  for (const double change : {0.02, 0.1, 0.5}) CHECK_THAT(said(drawn_with(0, change, 0.03)), Catch::Contains("draws like the base model"));
  CHECK_THAT(said(drawn_with(0, 0.5, 0)), Catch::Contains("shows 0 ± 0"));
  CHECK(said(drawn_with(0, 1e-4, 0.03)) == "");  // this cannot be told yet
}

TEST_CASE("log-probabilities of other weights are noticed by their gap") {
  CHECK_THAT(said(drawn_with(1, 0.5, 0.3)), Catch::Contains("differ from the trainer's by 0.2"));
  CHECK(said(drawn_with(1, 0.5, 0.3), 0.5) == "");
}

TEST_CASE("a rollout of older weights is compared with those, not with what they have become") {
  Rollout rollout = drawn_with(1, 0.5, 0.03);
  Completion& c = rollout.completions[0];
  c.drawn_logps = c.old_logps;
  for (float& logp : c.old_logps) logp -= 1;  // since then
  CHECK(said(rollout) == "");
  c.drawn_logps.clear();
  CHECK(said(rollout) != "");
  Rollout ignored = drawn_with(0, 0.5, 0.03);
  ignored.completions[0].drawn_logps = std::exchange(ignored.completions[0].old_logps, ignored.completions[0].base_logps);
  CHECK_THAT(said(ignored), Catch::Contains("draws like the base model"));
}
