#pragma once
// Attention that LibTorch's kernels do not know: with a cap on the scores, a window or sinks.
// Causal, packed, any GPU and type; products in fp32 without tensor cores, so several times slower
// than flash attention where that would do. Results do not depend on timing.
//
// A block of four warps takes a few rows (blockIdx.x) of one head of a sequence (blockIdx.y):
// queries, or keys for their own gradients; each warp owns kOwn of them. The rows they meet come in
// tiles of 32 through shared memory: in products a lane owns a row of the tile (rows are an odd
// number of words apart, so 32 lanes read 32 banks), in sums over the tile it owns features lane,
// lane + 32, …, kFeatures of them. So the only exchange between lanes is one broadcast a row of the
// tile.
//
//   forward    s, softmax online as in flash attention (Dao et al., 2022), out, lse
//   d q        delta_i = d out_i · out_i; p from lse; d s; d q; writes delta for the next kernels
//   d k, d v   rows are keys; queries of all heads that share them come in tiles
//   d sinks    from lse and delta; a block takes a head
#include "kernels/device/reduce.cuh"

namespace forge {

constexpr int kAttentionWarps = 4, kTile = 32;
template <int kFeatures>
constexpr int kOwn = kFeatures > 4 ? 1 : 2;  // 48 KiB of shared memory
template <int kFeatures>
constexpr int kBlockRows = kOwn<kFeatures>* kAttentionWarps;
template <int kFeatures>
constexpr int kTileWords = kTile*(kWarp* kFeatures + 1);
template <int kFeatures>
constexpr int kOwnWords = kOwn<kFeatures>* kWarp* kFeatures;  // of one warp
// [tokens, heads, head_dim]
template <class T>
struct Heads {
  Global<T> data;
  int64_t stride;
};

// The score of a key that a query does not see.
__device__ __forceinline__ float nothing() { return __uint_as_float(0xFF800000); }  // −∞

struct AttentionNumbers {
  int64_t heads, kv_heads, head_dim, window, tokens;
  float scale, softcap, twice_inverse_cap;
};

// The code avoids branches where lanes may diverge: each costs a convergence barrier, and ptxas
// spills those past its few.
//
// The score of a product, and the factor of its gradient.
struct Score {
  float value, slope;
};
__device__ __forceinline__ Score score_of(const AttentionNumbers& n, float product) {
  const float s = product * n.scale;
  if (n.softcap == 0) return {s, n.scale};
  const float t = 1.0f - __fdividef(2.0f, expf(s * n.twice_inverse_cap) + 1.0f);  // tanh(s / softcap)
  return {n.softcap * t, n.scale * (1.0f - t * t)};
}

__device__ __forceinline__ bool sees(const AttentionNumbers& n, int64_t query, int64_t key) {
  return key <= query && (n.window == 0 || query - key < n.window);
}

// Loads rows [first, first + 32) of a head, with zeros from row `length` on and past head_dim. All
// threads take part; they may read the tile after a barrier.
template <int kFeatures, class T>
__device__ __forceinline__ void load_tile(Shared<float> tile, Heads<const T> x, int64_t begin, int64_t length,
                                          int64_t first, int64_t head, int64_t head_dim) {
#pragma unroll 1
  for (int r = threadIdx.x / kWarp; r < kTile; r += kAttentionWarps)
#pragma unroll 4
    for (int f = threadIdx.x % kWarp; f < kWarp * kFeatures; f += kWarp) {
      float value = 0;
      if (first + r < length && f < head_dim)
        value = widen(static_cast<T>(x.data[(begin + first + r) * x.stride + head * head_dim + f]));
      tile[r * (kWarp * kFeatures + 1) + f] = value;
    }
}

// Loads a row of the warp's own.
template <int kFeatures, class T>
__device__ __forceinline__ void load_own(Shared<float> own, int row, Heads<const T> x, int64_t token,
                                         bool there, int64_t head, int64_t head_dim) {
#pragma unroll 4
  for (int f = threadIdx.x % kWarp; f < kWarp * kFeatures; f += kWarp)
    own[row * kWarp * kFeatures + f] =
        there && f < head_dim ? widen(static_cast<T>(x.data[token * x.stride + head * head_dim + f])) : 0.0f;
}

// Returns the product of the warp's row `row` and the lane's row of the tile.
template <int kFeatures>
__device__ __forceinline__ float product(Shared<float> own, int row, Shared<float> tile, int64_t head_dim) {
  const int lane = threadIdx.x % kWarp;
  float sum = 0;
#pragma unroll 4
  for (int f = 0; f < head_dim; ++f)
    sum += own[row * kWarp * kFeatures + f] * tile[lane * (kWarp * kFeatures + 1) + f];
  return sum;
}

// Adds Σ factor of each lane · that lane's row of the tile to the sums, by features.
template <int kFeatures>
__device__ __forceinline__ void add_rows_of(Shared<float> tile, float factor, float* sums) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll 4
  for (int j = 0; j < kTile; ++j) {
    const float of_row = __shfl_sync(kAllLanes, factor, j);
#pragma unroll
    for (int c = 0; c < kFeatures; ++c)
      sums[c] += of_row * tile[j * (kWarp * kFeatures + 1) + lane + c * kWarp];
  }
}

template <int kFeatures, class T>
__device__ __forceinline__ void store_own(Heads<T> y, int64_t token, int64_t head, int64_t head_dim,
                                          const float* sums, float factor) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int c = 0; c < kFeatures; ++c)
    if (lane + c * kWarp < head_dim)
      y.data[token * y.stride + head * head_dim + lane + c * kWarp] = narrow<T>(sums[c] * factor);
}

template <class T>
struct AttentionForwardArgs {
  Global<const int32_t> cu_seqlens;
  Heads<const T> q, k, v;
  Heads<T> out;
  Global<float> lse;
  Global<const T> sinks;  // [heads], or null
  AttentionNumbers numbers;
};

template <class T, int kFeatures>
__global__ void __launch_bounds__(kAttentionWarps* kWarp)
    attention_forward_kernel(AttentionForwardArgs<T> a) {
  constexpr int kRows = kOwn<kFeatures>;
  const AttentionNumbers& n = a.numbers;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const Shared<float> tile = dynamic_shared<float>(),
                      own = tile + (kTileWords<kFeatures> + warp * kOwnWords<kFeatures>);
  const int64_t head = blockIdx.x % n.heads, kv_head = head * n.kv_heads / n.heads;
  const int64_t first = int64_t(blockIdx.x / n.heads) * kBlockRows<kFeatures>, mine = first + warp * kRows;
  const int64_t sequence = blockIdx.y;
  const int64_t begin = a.cu_seqlens[sequence], length = a.cu_seqlens[sequence + 1] - begin;
  if (first >= length) return;
  const int64_t end = first + kBlockRows<kFeatures> < length ? first + kBlockRows<kFeatures> : length;
  float sums[kRows][kFeatures] = {}, most[kRows], total[kRows] = {};
  for (int r = 0; r < kRows; ++r) {
    most[r] = nothing();
    load_own<kFeatures>(own, r, a.q, begin + mine + r, mine + r < length, head, n.head_dim);
  }
  for (int64_t key = n.window > 0 && first >= n.window ? first - n.window + 1 : 0; key < end; key += kTile) {
    load_tile<kFeatures>(tile, a.k, begin, length, key, kv_head, n.head_dim);
    __syncthreads();
    float s[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float value = score_of(n, product<kFeatures>(own, r, tile, n.head_dim)).value;
      s[r] = key + lane < length && sees(n, mine + r, key + lane) ? value : nothing();
    }
    __syncthreads();
    load_tile<kFeatures>(tile, a.v, begin, length, key, kv_head, n.head_dim);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float before = most[r], now = Maximum()(before, reduce_warp(s[r], Maximum()));
      const float base = now == nothing() ? 0.0f : now;  // nothing to be seen yet
      const float p = expf(s[r] - base), shrink = expf(before - base);
      most[r] = now;
      total[r] = total[r] * shrink + reduce_warp(p, Sum());
#pragma unroll
      for (int c = 0; c < kFeatures; ++c) sums[r][c] *= shrink;
      add_rows_of<kFeatures>(tile, p, sums[r]);
    }
    __syncthreads();
  }
  // A sink is one more score, without a value.
  const float sink = a.sinks != nullptr ? widen(static_cast<T>(a.sinks[head])) : nothing();
  for (int r = 0; r < kRows; ++r) {
    if (mine + r >= length) continue;
    const float now = Maximum()(most[r], sink), shrink = expf(most[r] - now);
    most[r] = now;
    total[r] = total[r] * shrink + expf(sink - now);
#pragma unroll
    for (int c = 0; c < kFeatures; ++c) sums[r][c] *= shrink;
    store_own<kFeatures>(a.out, begin + mine + r, head, n.head_dim, sums[r], __fdividef(1.0f, total[r]));
    if (lane == 0 && a.lse != nullptr) a.lse[head * n.tokens + begin + mine + r] = most[r] + logf(total[r]);
  }
}

template <class T>
struct AttentionBackwardArgs {
  Global<const int32_t> cu_seqlens;
  Heads<const T> q, k, v, out, d_out;
  Global<const float> lse;
  Global<float> delta;  // [heads, tokens]
  Heads<T> d_q, d_k, d_v;
  AttentionNumbers numbers;
};

template <class T, int kFeatures>
__global__ void __launch_bounds__(kAttentionWarps* kWarp) attention_d_q_kernel(AttentionBackwardArgs<T> a) {
  constexpr int kRows = kOwn<kFeatures>;
  const AttentionNumbers& n = a.numbers;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const Shared<float> tile = dynamic_shared<float>(),
                      own_q = tile + (kTileWords<kFeatures> + 2 * warp * kOwnWords<kFeatures>),
                      own_d = own_q + kOwnWords<kFeatures>;
  const int64_t head = blockIdx.x % n.heads, kv_head = head * n.kv_heads / n.heads;
  const int64_t first = int64_t(blockIdx.x / n.heads) * kBlockRows<kFeatures>, mine = first + warp * kRows;
  const int64_t sequence = blockIdx.y;
  const int64_t begin = a.cu_seqlens[sequence], length = a.cu_seqlens[sequence + 1] - begin;
  if (first >= length) return;
  const int64_t end = first + kBlockRows<kFeatures> < length ? first + kBlockRows<kFeatures> : length;
  float sums[kRows][kFeatures] = {}, lse[kRows], delta[kRows];
  for (int r = 0; r < kRows; ++r) {
    const bool there = mine + r < length;
    const int64_t token = begin + mine + r;
    load_own<kFeatures>(own_q, r, a.q, token, there, head, n.head_dim);
    load_own<kFeatures>(own_d, r, a.d_out, token, there, head, n.head_dim);
    float dot = 0;
    for (int f = lane; there && f < n.head_dim; f += kWarp)
      dot += own_d[r * kWarp * kFeatures + f] *
             widen(static_cast<T>(a.out.data[token * a.out.stride + head * n.head_dim + f]));
    delta[r] = reduce_warp(dot, Sum());
    // For a row without a query the sequence's first query is read in its place, without a branch;
    // its numbers are not used below.
    const int64_t number = head * n.tokens + (there ? token : begin);
    lse[r] = a.lse[number];
    if (there && lane == 0) a.delta[number] = delta[r];
  }
  for (int64_t key = n.window > 0 && first >= n.window ? first - n.window + 1 : 0; key < end; key += kTile) {
    load_tile<kFeatures>(tile, a.k, begin, length, key, kv_head, n.head_dim);
    __syncthreads();
    float p[kRows], slope[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const Score s = score_of(n, product<kFeatures>(own_q, r, tile, n.head_dim));
      const bool seen = mine + r < length && key + lane < length && sees(n, mine + r, key + lane);
      p[r] = seen ? expf(s.value - lse[r]) : 0.0f;
      slope[r] = s.slope;
    }
    __syncthreads();
    load_tile<kFeatures>(tile, a.v, begin, length, key, kv_head, n.head_dim);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      p[r] *= (product<kFeatures>(own_d, r, tile, n.head_dim) - delta[r]) * slope[r];
    __syncthreads();
    load_tile<kFeatures>(tile, a.k, begin, length, key, kv_head, n.head_dim);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kRows; ++r) add_rows_of<kFeatures>(tile, p[r], sums[r]);
    __syncthreads();
  }
  for (int r = 0; r < kRows; ++r)
    if (mine + r < length) store_own<kFeatures>(a.d_q, begin + mine + r, head, n.head_dim, sums[r], 1.0f);
}

template <class T, int kFeatures>
__global__ void __launch_bounds__(kAttentionWarps* kWarp) attention_d_kv_kernel(AttentionBackwardArgs<T> a) {
  constexpr int kRows = kOwn<kFeatures>;
  const AttentionNumbers& n = a.numbers;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const Shared<float> tile = dynamic_shared<float>(),
                      own_k = tile + (kTileWords<kFeatures> + 2 * warp * kOwnWords<kFeatures>),
                      own_v = own_k + kOwnWords<kFeatures>;
  const int64_t kv_head = blockIdx.x % n.kv_heads, shared = n.heads / n.kv_heads;
  const int64_t first = int64_t(blockIdx.x / n.kv_heads) * kBlockRows<kFeatures>, mine = first + warp * kRows;
  const int64_t sequence = blockIdx.y;
  const int64_t begin = a.cu_seqlens[sequence], length = a.cu_seqlens[sequence + 1] - begin;
  if (first >= length) return;
  const int64_t last =
      first + kBlockRows<kFeatures> - 1 + n.window;  // past the last query that sees one of the block's keys
  const int64_t end = n.window > 0 && last < length ? last : length;
  float d_k[kRows][kFeatures] = {}, d_v[kRows][kFeatures] = {};
  for (int r = 0; r < kRows; ++r) {
    load_own<kFeatures>(own_k, r, a.k, begin + mine + r, mine + r < length, kv_head, n.head_dim);
    load_own<kFeatures>(own_v, r, a.v, begin + mine + r, mine + r < length, kv_head, n.head_dim);
  }
#pragma unroll 1
  for (int64_t head = kv_head * shared; head < (kv_head + 1) * shared; ++head)
#pragma unroll 1
    for (int64_t query = first; query < end; query += kTile) {
      const bool there = query + lane < length;
      const int64_t number = head * n.tokens + begin + query + lane;
      const float lse = there ? static_cast<float>(a.lse[number]) : 0.0f,
                  delta = there ? static_cast<float>(a.delta[number]) : 0.0f;
      load_tile<kFeatures>(tile, a.q, begin, length, query, head, n.head_dim);
      __syncthreads();
      float p[kRows], slope[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const Score s = score_of(n, product<kFeatures>(own_k, r, tile, n.head_dim));
        p[r] = there && mine + r < length && sees(n, query + lane, mine + r) ? expf(s.value - lse) : 0.0f;
        slope[r] = s.slope;
      }
      __syncthreads();
      load_tile<kFeatures>(tile, a.d_out, begin, length, query, head, n.head_dim);
      __syncthreads();
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float d_s = p[r] * (product<kFeatures>(own_v, r, tile, n.head_dim) - delta) * slope[r];
        add_rows_of<kFeatures>(tile, p[r], d_v[r]);
        p[r] = d_s;
      }
      __syncthreads();
      load_tile<kFeatures>(tile, a.q, begin, length, query, head, n.head_dim);
      __syncthreads();
#pragma unroll
      for (int r = 0; r < kRows; ++r) add_rows_of<kFeatures>(tile, p[r], d_k[r]);
      __syncthreads();
    }
  for (int r = 0; r < kRows; ++r) {
    if (mine + r >= length) break;
    store_own<kFeatures>(a.d_k, begin + mine + r, kv_head, n.head_dim, d_k[r], 1.0f);
    store_own<kFeatures>(a.d_v, begin + mine + r, kv_head, n.head_dim, d_v[r], 1.0f);
  }
}

template <class T>
struct AttentionSinksArgs {
  Global<const T> sinks;
  Global<const float> lse, delta;  // [heads, tokens]
  Global<float> d_sinks;
  int64_t tokens;
};

constexpr int kSinkThreads = 256;

template <class T>
__global__ void __launch_bounds__(kSinkThreads) attention_d_sinks_kernel(AttentionSinksArgs<T> a) {
  FORGE_SHARED(float, scratch, 32);
  const int64_t head = blockIdx.x;
  const float sink = widen(static_cast<T>(a.sinks[head]));
  float sum = 0;
  for (int64_t token = threadIdx.x; token < a.tokens; token += kSinkThreads)
    sum += expf(sink - a.lse[head * a.tokens + token]) * a.delta[head * a.tokens + token];
  sum = reduce_block(sum, 0.0f, Sum(), scratch);
  if (threadIdx.x == 0) a.d_sinks[head] -= sum;
}

}  // namespace forge
