#include "core/lib/base/typo.h"

#include <algorithm>

#include "core/lib/base/text.h"

namespace forge {
namespace {

std::string digits_of(std::string_view text) {
  std::string digits;
  for (char c : text)
    if (c >= '0' && c <= '9') digits += c;
  std::sort(digits.begin(), digits.end());  // bf61 is a misspelling of bf16
  return digits;
}

// True if each part is itself a likely misspelling. Names with different numbers of parts are not
// compared.
bool parts_agree(std::string_view a, std::string_view b) {
  const std::vector<std::string> left = split(a, '_'), right = split(b, '_');
  if (left.size() != right.size()) return true;
  for (size_t i = 0; i < left.size(); ++i)
    if (edit_distance(left[i], right[i]) > (left[i].size() < 5 ? 1 : 2)) return false;
  return true;
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, previous(b.size() + 1), current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replace = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        current[j] = std::min(current[j], before[j - 2] + 1);
    }
    before = previous;
    previous = current;
  }
  return previous[b.size()];
}

std::string closest(std::string_view word, const std::vector<std::string>& candidates, size_t allowed,
                    const FitsWord& fits) {
  const std::string small = lower(word);
  std::string best;
  size_t best_distance = allowed + 1;
  for (const std::string& candidate : candidates) {
    // The distance is at least the difference in length; this keeps long column names cheap.
    const auto [shorter, longer] = std::minmax({word.size(), candidate.size()});
    if (longer - shorter >= best_distance) continue;
    const std::string other = lower(candidate);
    const size_t distance = edit_distance(small, other);
    if (distance >= best_distance || !fits(small, other, distance)) continue;
    best_distance = distance;
    best = candidate;
  }
  return best;
}

std::string likely_meant(std::string_view word, const std::vector<std::string>& candidates) {
  return closest(word, candidates, word.size() < 8 ? 1 : 2, [](std::string_view a, std::string_view b, size_t) {
    return std::min(a.size(), b.size()) >= 2 && digits_of(a) == digits_of(b) && parts_agree(a, b);
  });
}

}  // namespace forge
