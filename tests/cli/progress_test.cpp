#include "cli/progress.h"

#include "tests/test.h"

using namespace forge;

TEST_CASE("A step is one line") {
  Json step{{"step", 120}, {"steps", 1339}, {"loss", 2.31444}, {"learning_rate", 2e-4},
            {"tokens_per_second", 1023.6}, {"peak_memory_bytes", 3 << 29}};
  CHECK(step_text(step, 75) == "step 120/1,339  loss 2.314  lr 0.0002  1,024 tok/s  1.5 GiB  1 min 15 s left");
  CHECK(step_text({{"step", 1}, {"loss", nullptr}}, 0) == "step 1  loss nan  lr 0  0 tok/s");
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
