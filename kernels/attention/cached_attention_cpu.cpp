// Computes attention page by page with an online softmax, all query heads of a key head together.
// One thread takes one key head of one sequence.
#ifdef FORGE_ISA

namespace forge::FORGE_ISA {
namespace cached {

constexpr int kVectors = static_cast<int>(kCachePage) / kLanes;

template <class T>
void store_token(const CacheStore& a, int64_t token) {
  const CacheShape& s = a.shape;
  const int64_t position = a.positions[token], row = position % kCachePage;
  const int64_t page = s.pages[a.sequences[token] * s.page_columns + position / kCachePage] * s.page_stride;
  const T *k = static_cast<const T*>(a.k) + token * a.k_stride, *v = static_cast<const T*>(a.v) + token * a.v_stride;
  T *keys = static_cast<T*>(a.keys) + page, *values = static_cast<T*>(a.values) + page;
  for (int64_t i = 0; i < s.kv_heads * s.head_dim; ++i) keys[i * kCachePage + row] = k[i];
  for (int64_t head = 0; head < s.kv_heads; ++head)
    std::memcpy(values + (head * kCachePage + row) * s.head_dim, v + head * s.head_dim,
                static_cast<size_t>(s.head_dim) * sizeof(T));
}

// Writes the scores of a page's tokens and returns the largest. Scores outside [first, last) become
// −∞.
template <class T>
float page_scores(const CachedAttention& a, const float* q, const T* keys, int64_t first, int64_t last,
                  float* scores) {
  F total[kVectors];
  for (int v = 0; v < kVectors; ++v) total[v] = set(0);
  for (int64_t i = 0; i < a.shape.head_dim; ++i) {
    const F factor = set(q[i]);
    for (int v = 0; v < kVectors; ++v)
      total[v] = fma(factor, load(keys + i * kCachePage + v * kLanes), total[v]);
  }
  const F lowest = set(-__builtin_huge_valf());
  F largest = lowest;
  for (int v = 0; v < kVectors; ++v) {
    F score = total[v];
    if (a.softcap > 0) score = set(a.softcap) * tanh(score * set(1 / a.softcap));
    const int64_t begin = v * kLanes;
    score = keep_first(score, std::clamp<int64_t>(last - begin, 0, kLanes), lowest);
    score = keep_first(lowest, std::clamp<int64_t>(first - begin, 0, kLanes), score);
    largest = max(score, largest);
    store(scores + begin, score);
  }
  return max_of(largest);
}

// Vectors of values that are summed side by side: one sum alone would wait for each of its
// additions.
constexpr int kSideBySide = 4;

// Computes columns [0, N · kLanes) of the sums from values [tokens, stride]: sums = keep · sums + Σ
// weight_j · value_j.
template <int N, class T>
FORGE_INLINE void add_values(const T* values, int64_t stride, const float* weights, int64_t first, int64_t last, F keep, float* sums) {
  F mixed[N];
  for (int v = 0; v < N; ++v) mixed[v] = load(sums + v * kLanes) * keep;
  for (int64_t j = first; j < last; ++j) {
    const F weight = set(weights[j]);
    for (int v = 0; v < N; ++v) mixed[v] = fma(weight, load(values + j * stride + v * kLanes), mixed[v]);
  }
  for (int v = 0; v < N; ++v) store(sums + v * kLanes, mixed[v]);
}

// Computes one head over one page. `sum_of_values` [head_dim], `largest` and `total` are those of
// the earlier pages and become those of all.
template <class T>
void page(const CachedAttention& a, const float* q, const T* keys, const T* values, int64_t first, int64_t last,
          float* scores, float* sum_of_values, float& largest, float& total) {
  const int64_t d = a.shape.head_dim;
  const float now = std::max(largest, page_scores(a, q, keys, first, last, scores));
  const float keep = total > 0 ? std::exp(largest - now) : 0;
  F added = set(0);
  for (int v = 0; v < kVectors; ++v) {
    // A token outside has a weight of e⁻⁸⁶·⁶ here and is never multiplied.
    const int64_t begin = v * kLanes;
    F weight = exp_of_weight(load(scores + begin) - set(now));
    weight = keep_first(weight, std::clamp<int64_t>(last - begin, 0, kLanes), set(0));
    weight = keep_first(set(0), std::clamp<int64_t>(first - begin, 0, kLanes), weight);
    store(scores + begin, weight);
    added = added + weight;
  }
  total = total * keep + sum(added);
  largest = now;
  int64_t column = 0;
  for (; column + kSideBySide * kLanes <= d; column += kSideBySide * kLanes)
    add_values<kSideBySide>(values + column, d, scores, first, last, set(keep), sum_of_values + column);
  for_lanes(d - column, [&](int64_t i, int n) FORGE_LAMBDA {
    i += column;
    F mixed = load_n(sum_of_values + i, n) * set(keep);
    for (int64_t j = first; j < last; ++j) mixed = fma(set(scores[j]), load_n(values + j * d + i, n), mixed);
    store_n(sum_of_values + i, mixed, n);
  });
}

// Returns the share of a sink in a total of weights e^(s − largest). If the sink is far above all
// scores the share is ∞, and the keys' shares are zero.
template <class T>
float of_sink(const CachedAttention& a, int64_t head, float largest) {
  return a.sinks ? std::exp(to_float(static_cast<const T*>(a.sinks)[head]) - largest) : 0;
}

template <class T>
void head_of_sequence(const CachedAttention& a, int64_t sequence, int64_t kv_head, float* scratch) {
  const CacheShape& s = a.shape;
  const int64_t d = s.head_dim, group = a.heads / s.kv_heads, length = a.lengths[sequence],
                begin = a.window > 0  ? std::max<int64_t>(0, length - a.window)
                        : a.chunk > 0 ? (length - 1) / a.chunk * a.chunk
                                      : 0;
  float *q = scratch, *sums = q + group * d, *scores = sums + group * d, *largest = scores + kCachePage,
        *total = largest + group;
  const T* queries = static_cast<const T*>(a.q) + sequence * a.q_stride + kv_head * group * d;
  for_lanes(group * d, [&](int64_t i, int n) FORGE_LAMBDA {
    store_n(q + i, load_n(queries + i, n) * set(a.scale), n);
    store_n(sums + i, set(0), n);
  });
  std::fill(largest, largest + group, -__builtin_huge_valf());
  std::fill(total, total + group, 0.0f);
  const int32_t* pages = s.pages + sequence * s.page_columns;
  for (int64_t p = begin / kCachePage; p * kCachePage < length; ++p) {
    const int64_t place = pages[p] * s.page_stride + kv_head * d * kCachePage;
    const int64_t first = std::max<int64_t>(0, begin - p * kCachePage),
                  last = std::min(kCachePage, length - p * kCachePage);
    for (int64_t head = 0; head < group; ++head)
      page(a, q + head * d, static_cast<const T*>(a.keys) + place, static_cast<const T*>(a.values) + place, first,
           last, scores, sums + head * d, largest[head], total[head]);
  }
  T* out = static_cast<T*>(a.out) + sequence * a.out_stride + kv_head * group * d;
  for (int64_t head = 0; head < group; ++head) {
    const float factor = 1 / (total[head] + of_sink<T>(a, kv_head * group + head, largest[head]));
    for_lanes(d, [&](int64_t i, int n) FORGE_LAMBDA {
      store_n(out + head * d + i, load_n(sums + head * d + i, n) * set(factor), n);
    });
  }
}

}  // namespace cached

void cache_store_token(const CacheStore& a, int64_t token) {
  if (a.shape.type == Element::f32)
    cached::store_token<float>(a, token);
  else
    cached::store_token<Bf16>(a, token);  // bits are moved
}

}  // namespace forge::FORGE_ISA

#else

#include "kernels/attention/cached_attention_args.h"
#include "kernels/cpu/parallel.h"
#define FORGE_KERNEL_FILE "kernels/attention/cached_attention_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {
namespace {

int64_t floats_of_thread(const CachedAttention& a) {
  const int64_t group = a.heads / std::max<int64_t>(1, a.shape.kv_heads);
  return (2 * group * a.shape.head_dim + kCachePage + 2 * group + 15) / 16 * 16;
}

}  // namespace

void cache_store_cpu(const CacheStore& args, CpuLevel level) {
  auto store = FORGE_PICK(level, cache_store_token);
  parallel_ranges(args.tokens, 8, [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) store(args, token);
  });
}

int64_t cached_attention_cpu_workspace(const CachedAttention& args) {
  return 64 + task_threads() * floats_of_thread(args) * 4;
}

void cached_attention_cpu(const CachedAttention& args, CpuLevel level) {
  auto head = FORGE_PICK_OF(level, args.shape.type, cached::head_of_sequence);
  float* base = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(args.workspace) + 63) / 64 * 64);
  const int64_t floats = floats_of_thread(args), kv_heads = args.shape.kv_heads;
  parallel_tasks(args.sequences * kv_heads, [&](int64_t task, int64_t thread) {
    head(args, task / kv_heads, task % kv_heads, base + thread * floats);
  });
}

}  // namespace forge

#endif
