#include "core/lib/base/random.h"

#include <algorithm>

#include "tests/test.h"

using namespace forge;

TEST_CASE("philox equals the published known answers") {
  // Random123's kat_vectors, philox4x32 10.
  CHECK(philox(0, 0, 0) == std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox(~0ull, ~0ull, ~0ull) == std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
}

TEST_CASE("uniform and normal have the moments of their distributions") {
  double sum = 0, squares = 0, uniform_sum = 0;
  constexpr int kCount = 20000;
  for (int i = 0; i < kCount; ++i) {
    double x = normal(7, 3, i), u = uniform(7, 4, i);
    sum += x;
    squares += x * x;
    uniform_sum += u;
    REQUIRE((u >= 0 && u < 1));
  }
  CHECK(std::abs(sum / kCount) < 0.03);
  CHECK(std::abs(squares / kCount - 1) < 0.04);
  CHECK(std::abs(uniform_sum / kCount - 0.5) < 0.01);
}

TEST_CASE("a permutation holds every index once and depends on seed and stream alone") {
  auto order = permutation(42, 1, 1000);
  CHECK(order == permutation(42, 1, 1000));
  CHECK(order != permutation(42, 2, 1000));
  CHECK(order != permutation(43, 1, 1000));
  std::sort(order.begin(), order.end());
  for (int64_t i = 0; i < 1000; ++i) REQUIRE(order[i] == i);
  CHECK(permutation(1, 1, 0).empty());
}
