#include "cli/progress.h"

#include "tests/test.h"

using namespace forge;

TEST_CASE("A step is one line") {
  Json step{{"step", 120}, {"steps", 1339}, {"loss", 2.31444}, {"learning_rate", 2e-4},
            {"tokens_per_second", 1023.6}, {"peak_memory_bytes", 3 << 29}};
  CHECK(step_text(step, 75) == "step 120/1,339  loss 2.314  lr 0.0002  1,024 tok/s  1.5 GiB  1 min 15 s left");
  CHECK(step_text({{"step", 1}, {"loss", nullptr}}, 0) == "step 1  loss nan  lr 0  0 tok/s");
}

TEST_CASE("A rollout is one line, which says how old the weights were that drew it") {
  Json rollout{{"rollout", 2}, {"reward", 0.7333}, {"reward_std", 0.1573}, {"flat_groups", 1}, {"groups", 4}, {"truncated_share", 0.0833},
               {"completion_tokens", {{"mean", 120}}}, {"sample_seconds", 2.1}, {"score_seconds", 0.3}};
  CHECK(rollout_text(rollout) == "rollout 3  reward 0.7333 ± 0.1573  flat 1/4  cut 8.3 %  120 tokens  drawn in 2.1 s, scored in 0.3 s");
  rollout.update({{"sampler_gap", 3e-7}, {"staleness", 2}});
  CHECK(rollout_text(rollout) == "rollout 3  reward 0.7333 ± 0.1573  flat 1/4  cut 8.3 %  120 tokens  gap 3e-07  2 stale  drawn in 2.1 s, scored in 0.3 s");
}

TEST_CASE("A bar fills from the left and never overflows") {
  CHECK(bar(0, 4) == "────");
  CHECK(bar(0.5, 4) == "━━──");
  CHECK(bar(7, 4) == "━━━━");
}

TEST_CASE("Text is cut between characters") {
  CHECK(cut_to_width("müller", 2) == "mü");
  CHECK(cut_to_width("ab", 5) == "ab");
  CHECK(cut_to_width("━━━", 1) == "━");
}
