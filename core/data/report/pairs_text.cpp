#include "core/data/report/pairs_text.h"

#include <algorithm>

#include "core/lib/base/text.h"

namespace forge {

std::string pairs_text(const PairCounts& pairs, int64_t count) {
  const auto mean = [&](int64_t tokens) { return format_count((tokens + count / 2) / std::max<int64_t>(1, count)); };
  std::string text = "answers of " + mean(pairs.chosen_tokens) + " (chosen) and " + mean(pairs.rejected_tokens) +
                     " tokens (rejected) on average; the chosen one is longer in " + format_count(pairs.chosen_longer) +
                     ", the rejected one in " + format_count(pairs.rejected_longer);
  const auto add = [&](int64_t n, const char* what) {
    if (n > 0) text += "; " + format_count(n) + what;
  };
  add(pairs.equal, " dropped because their answers are equal");
  add(pairs.one_side_cut, " with one answer cut");
  add(pairs.other_prompts, " whose two answers answer different prompts");
  add(pairs.prompts_differ - pairs.other_prompts, " whose prompts end in different tokens");
  return text;
}

std::string classes_text(const PairCounts& pairs) {
  return format_count(pairs.desirable) + " desirable, " + format_count(pairs.undesirable) + " undesirable";
}

}  // namespace forge
