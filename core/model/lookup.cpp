#include "core/model/lookup.h"

#include <algorithm>

namespace forge {

std::vector<int32_t> look_up(const std::vector<int32_t>& held, size_t most) {
  constexpr size_t kLongest = 3, kShortest = 2;  // one token alone is followed by too many others
  for (size_t n = kLongest; n >= kShortest; --n) {
    if (held.size() <= n) continue;
    const auto last = held.end() - static_cast<std::ptrdiff_t>(n);
    const auto found = std::find_end(held.begin(), held.end() - 1, last, held.end());
    if (found == held.end() - 1) continue;
    std::vector<int32_t> next;
    const size_t from = static_cast<size_t>(found - held.begin()) + n;
    // Past the end of a text that repeats itself it goes on with what is proposed.
    for (size_t i = from; next.size() < most; ++i) next.push_back(i < held.size() ? held[i] : next[i - held.size()]);
    return next;
  }
  return {};
}

}  // namespace forge
