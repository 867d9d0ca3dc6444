#include "core/text/tokenizer/word_cache.h"

#include <array>

namespace forge::text {

// A thread rarely serves more than one or two tokenizers; with more, they share the places in turn.
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
