#include "core/lib/text/tokenizer/models/word_cache.h"

#include <array>
#include <atomic>

namespace forge::text {

uint64_t WordCache::new_model() {
  static std::atomic<uint64_t> number{0};
  return ++number;
}

bool WordCache::keep(std::string_view word, const std::vector<WordToken>& tokens, Entry& entry) {
  if (tokens.size() > kTokens) return false;
  int32_t at = 0;
  for (const WordToken& token : tokens) {
    if (token.begin != at) return false;
    at = token.end;
  }
  std::memcpy(entry.word, word.data(), word.size());
  entry.bytes = static_cast<uint8_t>(word.size());
  entry.count = static_cast<uint8_t>(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    entry.ids[i] = tokens[i].id;
    entry.lengths[i] = static_cast<uint8_t>(tokens[i].end - tokens[i].begin);
  }
  return true;
}

// A thread rarely uses more than two tokenizers. More of them take turns using the slots.
WordCache& WordCache::of_this_thread(uint64_t model) {
  thread_local std::array<std::unique_ptr<WordCache>, 4> caches;
  std::unique_ptr<WordCache>& cache = caches[model % caches.size()];
  if (cache == nullptr || cache->model_ != model) {
    cache = std::make_unique<WordCache>();
    cache->model_ = model;
  }
  return *cache;
}

}  // namespace forge::text
