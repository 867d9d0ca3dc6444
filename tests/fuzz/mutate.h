#pragma once
// Mutates an input, for driver.cpp.
#include <cstdint>
#include <string>
#include <vector>

namespace forge {

// A linear congruential generator (Knuth's MMIX constants), high bits.
struct Random {
  uint64_t state;
  // Returns a number below `count`; 0 when `count` is 0.
  uint64_t operator()(uint64_t count) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return count == 0 ? 0 : (state >> 33) % count;
  }
};

constexpr size_t kLongestInput = 64 << 10;

// Changes `input` in one place, perhaps with a part of an input of `corpus`.
void mutate(std::string& input, const std::vector<std::string>& corpus, Random& random);

}  // namespace forge
