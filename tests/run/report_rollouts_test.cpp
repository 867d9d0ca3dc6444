// Tests the findings in the report of a policy: each one appears where it is true, and only there.
#include "core/run/report_rollouts.h"

#include "tests/test.h"

using namespace forge;

namespace {

// Means that change from one value to another over twenty rollouts, with held-out answers at every
// fifth.
struct Course {
  double reward[2] = {0.2, 0.8}, shadow[2] = {0.5, 0.5}, held_out[2] = {0.2, 0.7}, tokens[2] = {20, 22}, flat[2] = {0.1, 0.2},
         cut[2] = {0.1, 0.1}, distinct[2] = {0.9, 0.8}, explains[2] = {0.5, 0.6};
};

std::vector<std::string> findings_of(const Course& course) {
  constexpr int kRollouts = 20;
  RolloutCurves curves;
  for (int i = 0; i < kRollouts; ++i) {
    const auto at = [&](const double (&ends)[2]) { return ends[0] + (ends[1] - ends[0]) * i / (kRollouts - 1); };
    curves.add({{"event", "rollout"}, {"step", i + 1}, {"reward", at(course.reward)}, {"reward_std", 0.3}, {"groups", 10},
                {"rewards", {{"right", {{"mean", at(course.reward)}, {"explains", at(course.explains)}}}, {"shadow", {{"mean", at(course.shadow)}}}}},
                {"flat_groups", 10 * at(course.flat)}, {"truncated_share", at(course.cut)}, {"distinct_2", at(course.distinct)},
                {"completion_tokens", {{"mean", at(course.tokens)}}}});
    if (i % 5 == 0) curves.add({{"event", "eval"}, {"step", i}, {"eval_reward", at(course.held_out)}});
  }
  return rollout_findings(curves);
}

bool says(const std::vector<std::string>& findings, const std::string& part) {
  return std::any_of(findings.begin(), findings.end(), [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("a policy that learns what it should is not warned about") {
  CHECK(findings_of({}).empty());
  CHECK(rollout_findings({}).empty());
  Course still;  // a fall while the reward does not rise is no sign of reward hacking
  still.reward[1] = 0.2, still.shadow[1] = 0.1, still.held_out[1] = 0.1;
  CHECK(findings_of(still).empty());
}

TEST_CASE("a reward that rises while held-out prompts or a measured reward fall is told in a sentence") {
  Course course;
  course.held_out[1] = 0.1;
  CHECK(findings_of(course) == std::vector<std::string>{"The reward rose (0.216 to 0.784) while that of held-out prompts fell (0.2 to 0.121): what is "
                                                        "learnt does not carry over."});
  course = {};
  course.shadow[1] = 0.2;
  CHECK(findings_of(course) == std::vector<std::string>{"While the reward rose, \"shadow\" fell: 0.492 to 0.208."});
}

TEST_CASE("lengths, flat groups, cut completions and variety are told of") {
  Course course;
  course.tokens[1] = 60;
  CHECK(says(findings_of(course), "Completions changed in length: 21.1 to 58.9 tokens."));
  course.tokens[1] = 5;
  CHECK(says(findings_of(course), "Completions changed in length"));
  course = {};
  course.flat[1] = 0.9;
  CHECK(says(findings_of(course), "At the end 88 % of the groups were flat"));
  course = {};
  course.cut[1] = 1;
  CHECK(says(findings_of(course), "At the end 98 % of the completions were cut at rollout.max_new_tokens."));
  course = {};
  course.distinct[1] = 0.2;
  CHECK(says(findings_of(course), "Completions became alike: distinct pairs of tokens 0.882 to 0.218."));
  course = {};
  course.explains[1] = 1;
  CHECK(findings_of(course) == std::vector<std::string>{"At the end \"right\" explains 99 % of how rewards differ: the others hardly count."});
}
