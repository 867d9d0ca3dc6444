#include "core/run/evaluate/windows.h"

#include <algorithm>

#include "core/lib/base/error.h"

namespace forge {

std::vector<Window> text_windows(int64_t tokens, int64_t window, int64_t stride) {
  FORGE_CHECK(tokens >= 2 && window >= 2 && stride >= 1 && stride <= window,
              tokens << " tokens, window " << window << ", stride " << stride);
  std::vector<Window> windows;
  int64_t predicted = 1;
  for (int64_t begin = 0; predicted < tokens; begin += stride) {
    const int64_t end = std::min(begin + window, tokens);
    // Where windows do not overlap, a window's first token has no token before it and is not
    // predicted, like in the recipe.
    const int64_t first = std::max(predicted, begin + 1);
    if (first < end) windows.push_back({begin, end, first});
    predicted = end;
  }
  return windows;
}

}  // namespace forge
