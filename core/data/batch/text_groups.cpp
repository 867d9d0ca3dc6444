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
      const int64_t widest = std::max(longest.source, longest.answer), pairs = count * widest * widest;
      if (within(count * longest.source, with.source) && within(count * longest.answer, with.answer) && pairs <= kMostGroupPairs) {
        last.texts.push_back(text), last.longest = longest, tokens = with;
        continue;
      }
    }
    groups.push_back({{text}, texts[text]});
    tokens = texts[text];
  }
  return groups;
}

void take_most(GroupSizes& most, const std::vector<TextGroup>& groups) {
  const auto raise = [](int64_t& to, int64_t value) { to = std::max(to, value); };
  for (const TextGroup& group : groups) {
    const auto texts = static_cast<int64_t>(group.texts.size());
    const auto [source, answer] = group.longest;
    if (texts > 1) raise(most.sources, texts * source), raise(most.answers, texts * answer);
    raise(most.source_pairs, texts * source * source), raise(most.answer_pairs, texts * answer * answer);
    raise(most.cross_pairs, texts * source * answer);
  }
}

GroupSizes bound_of_groups(int64_t tokens, int64_t longest) {
  const auto slots = static_cast<int64_t>(kMostPadding * static_cast<double>(tokens));
  const int64_t pairs = std::max(std::min(kMostGroupPairs, slots * longest), longest * longest);
  return {slots, slots, pairs, pairs, pairs};
}

}  // namespace forge
