#include "core/run/evaluate/example_file.h"

#include <algorithm>

#include "core/data/token_cache.h"

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

DataSet write_examples(const std::string& path, const std::string& source,
                       const std::vector<MadeExample>& examples) {
  TokenCacheWriter writer(path);
  DataSummary summary;
  for (const MadeExample& example : examples) {
    const auto tokens = static_cast<int64_t>(example.ids.size());
    FORGE_CHECK(example.first >= 1 && example.first <= tokens,
                "the first token of an example has nothing before it");
    std::vector<uint8_t> supervised(example.ids.size(), 0);
    std::fill(supervised.begin() + example.first, supervised.end(), 1);
    writer.add(example.ids, supervised, 0, example.line);
    summary.longest = std::max(summary.longest, tokens);
    summary.tokens += tokens;
    summary.supervised_tokens += tokens - example.first;
  }
  summary.rows = summary.examples = static_cast<int64_t>(examples.size());
  summary.content_hash = writer.content_hash();
  summary.cache_path = path;
  writer.finish({{"sources", {source}}, {"summary", to_json(summary)}, {"pairs", false}});
  return DataSet::open(path);
}

}  // namespace forge
