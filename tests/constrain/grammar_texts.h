#pragma once
// Tests whether a grammar holds a text, and draws texts of a grammar.
#include <array>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/lib/text/grammar/matcher.h"
#include "tests/test.h"

namespace forge {

inline std::array<bool, 256> every_byte() {
  std::array<bool, 256> all;
  all.fill(true);
  return all;
}

inline bool accepts(Matcher& matcher, const std::string& text) {
  int state = matcher.start();
  for (const char c : text) state = matcher.next(state, static_cast<uint8_t>(c));
  return state != Matcher::kDead && matcher.may_end(state);
}

// Draws a text of the grammar with at most about `budget` bytes: every byte that can still end in
// time is equally likely.
inline std::string draw(Matcher& matcher, std::mt19937& random, int64_t budget) {
  std::string text;
  for (int state = matcher.start();;) {
    std::vector<std::pair<uint8_t, int>> next;
    for (int byte = 0; byte < 256; ++byte)
      if (const int after = matcher.next(state, static_cast<uint8_t>(byte));
          after != Matcher::kDead && matcher.shortest(after) <= budget - static_cast<int64_t>(text.size()) - 1)
        next.emplace_back(static_cast<uint8_t>(byte), after);
    const bool ends = matcher.may_end(state) && (next.empty() || random() % 8 == 0);
    if (ends) return text;
    REQUIRE(!next.empty());
    const auto& [byte, after] = next[random() % next.size()];
    text += static_cast<char>(byte);
    state = after;
  }
}

}  // namespace forge
