#include "core/train/pass.h"

#include <vector>

#include "tests/test.h"

namespace forge {

TEST_CASE("every part is one rank's, in order") {
  const std::vector<int> parts{0, 1, 2, 3, 4};
  const StopFlag stop;
  const auto of = [&](const World& world) {
    std::vector<int> seen;
    for_each_part(world, parts, stop, [&](int part) { seen.push_back(part); });
    return seen;
  };
  CHECK(of({}) == parts);
  CHECK(of({.rank = 0, .size = 2}) == std::vector<int>{0, 2, 4});
  CHECK(of({.rank = 1, .size = 2}) == std::vector<int>{1, 3});
  CHECK(of({.rank = 6, .size = 7}).empty());
}

TEST_CASE("a stop is noticed before the next part, and after the last one it is too late") {
  StopFlag stop;
  int done = 0;
  const auto work = [&](int part) { stop.requested = part == 1, ++done; };
  CHECK_THROWS_AS(for_each_part({}, std::vector<int>{0, 1, 2}, stop, work), StepInterrupted);
  CHECK(done == 2);
  stop.requested = false;
  for_each_part({}, std::vector<int>{0, 1}, stop, work);
  CHECK(done == 4);
}

}  // namespace forge
