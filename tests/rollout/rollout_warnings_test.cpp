// Tests warnings about a first rollout that cannot teach: hardly any text, no reward, cut texts.
#include "core/learn/rollout/rollout_metrics.h"
#include "core/lib/base/text.h"
#include "tests/rollout/rollouts.h"

using namespace forge;

namespace {

std::string warnings_of(const Rollout& rollout) { return join(rollout_warnings(rollout, RolloutConfig{.max_new_tokens = 8}), "\n"); }

// Returns two groups of two completions; `flat` of the groups have equal rewards.
Rollout drawn(const std::vector<std::vector<int64_t>>& lengths, double reward, int64_t flat) {
  Rollout rollout = rollout_of(lengths, {{reward, reward}, {reward, reward}});
  rollout.groups = 2;
  rollout.flat_groups = flat;
  return rollout;
}

}  // namespace

TEST_CASE("completions of hardly any text are warned of, once half of the first rollout are so") {
  CHECK_THAT(warnings_of(drawn({{0, 2}, {7, 7}}, 1, 0)),
             Catch::Contains("2 of 4 completions of the first rollout have at most 2 tokens") && Catch::Contains("data.prompt_as"));
  CHECK(warnings_of(drawn({{0, 3}, {7, 7}}, 1, 0)) == "");
  Rollout later = drawn({{0, 0}, {0, 0}}, 1, 0);
  later.number = 1;
  CHECK(warnings_of(later) == "");
  CHECK(warnings_of({}) == "");
}

TEST_CASE("a first rollout without any reward is warned of") {
  CHECK_THAT(warnings_of(drawn({{7, 7}, {7, 7}}, 0, 2)), Catch::Contains("every completion of the first rollout has reward 0"));
  CHECK(warnings_of(drawn({{7, 7}, {7, 7}}, 1, 2)) == "");  // alike, and not without reward
  CHECK(warnings_of(drawn({{7, 7}, {7, 7}}, 0, 1)) == "");
}

TEST_CASE("completions that were cut are not short ones") {
  Rollout cut = drawn({{2, 2}, {7, 7}}, 1, 0);
  for (Completion& completion : cut.completions) completion.truncated = true;
  CHECK_THAT(warnings_of(cut), Catch::Contains("4 of 4 completions of the first rollout were cut at 8 tokens") && !Catch::Contains("at most 2 tokens"));
}
