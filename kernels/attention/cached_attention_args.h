#pragma once
// Attention of one new token a sequence over the keys and values of its earlier tokens, which are
// in pages of a cache.
//
//   out_s = Σ_j p_j v_j,  p = softmax(scale · q_s · k_j) over the last `window` of s's lengths[s] tokens (0: over all)
//   with a chunk c > 0: over those from the last multiple of c on, of positions from 0
//   with softcap c > 0: softmax(c tanh(scale · q_s · k_j / c)); with sinks as attention_args.h says
//
// A page holds kCachePage tokens of one layer: keys [kv_heads, head_dim, kCachePage], so that
// scores are made of whole vectors of tokens, and values [kv_heads, kCachePage, head_dim]. Page p
// begins at keys + p · page_stride. A sequence's pages are listed in order in a row of `pages`. The
// result of a sequence does not depend on the other sequences. Bytes: 2 · kv_heads · head_dim a
// token.
#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/cpu/level.h"

namespace forge {

constexpr int64_t kCachePage = 64;

struct CacheShape {
  Element type = Element::f32;
  int64_t kv_heads = 0, head_dim = 0;
  int64_t page_stride = 0;         // elements
  const int32_t* pages = nullptr;  // [sequences, page_columns]
  int64_t page_columns = 0;
  int64_t values_per_page() const { return kv_heads * head_dim * kCachePage; }  // of keys; and of values
};

// A layer's part of a page: its keys, and its values after them.
struct CacheLayer {
  int64_t begin = 0;  // bytes from the beginning of a page
  int64_t kv_heads = 0, head_dim = 0;
  bool shared = false;  // an earlier layer's, which stores it
};

// Keys and values of tokens → their places: token t belongs to a sequence and a position in it.
struct CacheStore {
  CacheShape shape;
  int64_t tokens = 0;
  const int32_t* sequences = nullptr;  // [tokens]
  const int32_t* positions = nullptr;  // [tokens]
  const void* k = nullptr;             // [tokens, kv_heads · head_dim]
  int64_t k_stride = 0;
  const void* v = nullptr;
  int64_t v_stride = 0;
  void* keys = nullptr;
  void* values = nullptr;
};

struct CachedAttention {
  CacheShape shape;
  int64_t sequences = 0, heads = 0, window = 0, chunk = 0;
  float scale = 1, softcap = 0;
  const void* sinks = nullptr;       // [heads] of the shape's type, or null
  const int32_t* lengths = nullptr;  // [sequences] tokens in the cache, the query's own among them
  const void* q = nullptr;           // [sequences, heads · head_dim]
  int64_t q_stride = 0;
  const void* keys = nullptr;
  const void* values = nullptr;
  void* out = nullptr;  // [sequences, heads · head_dim]
  int64_t out_stride = 0;
  void* workspace = nullptr;
};

void cache_store_cpu(const CacheStore& args, CpuLevel level = cpu_level());
int64_t cached_attention_cpu_workspace(const CachedAttention& args);
void cached_attention_cpu(const CachedAttention& args, CpuLevel level = cpu_level());

}  // namespace forge
