#include "core/data/batch/text_groups.h"

#include <algorithm>
#include <numeric>

namespace forge {
namespace {

bool within(int64_t slots, int64_t tokens) { return static_cast<double>(slots) <= kMostPadding * static_cast<double>(tokens); }

}  // namespace

std::vector<TextGroup> text_groups(const std::vector<TextLengths>& texts) {
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(texts[a].source, texts[a].answer) < std::pair(texts[b].source, texts[b].answer);
  });
  std::vector<TextGroup> groups;
  TextLengths tokens;  // of the last group
  for (const size_t text : order) {
    const TextLengths with{tokens.source + texts[text].source, tokens.answer + texts[text].answer};
    if (!groups.empty()) {
      TextGroup& last = groups.back();
      const TextLengths longest{std::max(last.longest.source, texts[text].source), std::max(last.longest.answer, texts[text].answer)};
      const auto count = static_cast<int64_t>(last.texts.size()) + 1;
      if (within(count * longest.source, with.source) && within(count * longest.answer, with.answer)) {
        last.texts.push_back(text), last.longest = longest, tokens = with;
        continue;
      }
    }
    groups.push_back({{text}, texts[text]});
    tokens = texts[text];
  }
  return groups;
}

}  // namespace forge
