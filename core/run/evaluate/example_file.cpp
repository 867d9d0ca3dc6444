#include "core/run/evaluate/example_file.h"

#include <algorithm>

#include "core/data/token_cache.h"

namespace forge {

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
