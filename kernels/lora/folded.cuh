#pragma once
// Thin products of folded adapters. A block of four warps takes a stretch of columns (blockIdx.x)
// and of tokens (blockIdx.y) in tiles of 64 tokens and 128 columns, which it reads once and
// multiplies twice out of shared memory:
//
//   S    [64, ranks]   += tile · factor      warp w: 16 tokens; summed over the block's columns,
//                                            stored after each 64 tokens
//   d B  [128, ranks]  += tileᵀ · sums       backward, warp w: 32 columns; summed over the block's tokens, in registers
//
// Both are parts of sums that other blocks have the rest of. The last block to finish a stretch of
// tokens adds up its S in the order of the columns, the last one of a stretch of columns its d B in
// the order of the tokens: no order of blocks changes a bit. Such a block sets its counter back to
// zero for the next launch.
#include "kernels/device/tiles.cuh"
#include "kernels/lora/folded_limits.h"

namespace forge {

constexpr int kThinWarps = 4, kThinThreads = kThinWarps * kWarp;
// Words of two neighbours from row to row: four more than needed, so that a fragment's 32 words are
// in 32 banks.
constexpr int kTileWords = kThinColumns / 2 + 4, kSumsWords = kThinTokens / 2 + 4;

struct ThinPartOnDevice {
  int64_t columns_from, columns, rank_from, ranks, first_block, blocks, sums_at, gradient_at, d_b_stride;
  Global<float> d_b;
};

template <class T>
struct ThinArgs {
  Global<const T> wide, factor, sums;  // x and A, or d y, B and S
  Global<T> to, kept;
  Global<float> partial;
  Global<uint32_t> counters;
  int64_t wide_stride, factor_stride, sums_stride, to_stride, kept_stride;
  int64_t tokens, tokens_each, columns_each, parts;
  ThinPartOnDevice part[kMaxThinParts];
  int64_t ranks_until[kMostMembers];  // of all ranks: those of a member and of the ones before it
  float scale[kMostMembers];
  // Operands if `wide` is a gate (gated.cuh): the values that it gates, and the result.
  Global<const T> up;
  Global<T> y;
  int64_t up_stride, y_stride;
  bool gelu;
};

// A source of the wide operand that reads it from memory.
struct AsStored {
  template <int kEights>
  static constexpr int kLoads = 4;  // at once, as far as registers reach
  // N neighbours of a row.
  template <int N, class T>
  static __device__ __forceinline__ Vector<T, N> load(const ThinArgs<T>& a, int64_t row, int64_t column) {
    return load_vector<N>(a.wide + row * a.wide_stride + column);
  }
};

// A block's part of the work: columns [begin, end) of the wide operand, tokens [from, to).
struct ThinPlace {
  int64_t part, begin, end, from, to;
};

template <class T>
__device__ __forceinline__ ThinPlace place_of(const ThinArgs<T>& a) {
  ThinPlace at{0, 0, 0, blockIdx.y * a.tokens_each, 0};
  while (at.part + 1 < a.parts && blockIdx.x >= a.part[at.part + 1].first_block) ++at.part;
  const ThinPartOnDevice& part = a.part[at.part];
  const int64_t columns = part.columns_from + part.columns;
  at.begin = part.columns_from + (blockIdx.x - part.first_block) * a.columns_each;
  at.end = at.begin + a.columns_each < columns ? at.begin + a.columns_each : columns;
  at.to = at.from + a.tokens_each < a.tokens ? at.from + a.tokens_each : a.tokens;
  return at;
}

// Loads [64 tokens, 128 columns], with zeros past the ends; N elements at once.
template <int N, int kLoads, class Source, class T>
__device__ __forceinline__ void load_tile(const ThinArgs<T>& a, const ThinPlace& at, int64_t token, int64_t column, Shared<uint32_t> tile) {
  constexpr int kEach = N == 1 ? 2 : N, kRow = kThinColumns / kEach;
#pragma unroll(N == 1 ? 1 : kLoads)
  for (int i = threadIdx.x; i < kThinTokens * kRow; i += kThinThreads) {
    const int row = i / kRow, first = i % kRow * kEach;
    Vector<T, kEach> values{};
    if (token + row < at.to) {
      if (N > 1 && column + first + kEach <= at.end)
        values = Source::template load<kEach>(a, token + row, column + first);
      else
        for (int k = 0; k < kEach && column + first + k < at.end; ++k)
          values[k] = Source::template load<1>(a, token + row, column + first + k)[0];
    }
#pragma unroll
    for (int k = 0; k < kEach; k += 2) tile[row * kTileWords + (first + k) / 2] = pair_of(values[k], values[k + 1]);
  }
}

// Loads [ranks, 128 columns]: rows of A, or columns of B.
template <int kRanks, bool kBackward, class T>
__device__ __forceinline__ void load_factor(const ThinArgs<T>& a, const ThinPartOnDevice& part, const ThinPlace& at, int64_t column,
                                            Shared<uint32_t> factor) {
  constexpr int kRow = kThinColumns / 2;
  const auto value = [&](int rank, int64_t k) {
    if (rank >= part.ranks || k >= at.end) return T{};
    const int64_t row = part.rank_from + rank;
    return static_cast<T>(kBackward ? a.factor[k * a.factor_stride + row] : a.factor[row * a.factor_stride + k]);
  };
#pragma unroll 2
  for (int i = threadIdx.x; i < kRanks * kRow; i += kThinThreads) {
    // Neighbouring threads read neighbours.
    const int rank = kBackward ? i % kRanks : i / kRow, k = (kBackward ? i / kRanks : i % kRow) * 2;
    factor[rank * kTileWords + k / 2] = pair_of(value(rank, column + k), value(rank, column + k + 1));
  }
}

// Loads [ranks, 64 tokens] of S.
template <int kRanks, class T>
__device__ __forceinline__ void load_sums(const ThinArgs<T>& a, const ThinPartOnDevice& part, const ThinPlace& at, int64_t token,
                                          Shared<uint32_t> sums) {
  const auto value = [&](int rank, int64_t row) {
    return rank < part.ranks && row < at.to ? static_cast<T>(a.sums[row * a.sums_stride + part.rank_from + rank]) : T{};
  };
#pragma unroll 2
  for (int i = threadIdx.x; i < kRanks * kThinTokens / 2; i += kThinThreads) {
    const int rank = i % kRanks, row = i / kRanks * 2;
    sums[rank * kSumsWords + row / 2] = pair_of(value(rank, token + row), value(rank, token + row + 1));
  }
}

// Returns neighbours down a column, which are in two words.
__device__ __forceinline__ uint32_t pair_down(Shared<uint32_t> tile, int row, int column) {
  const uint32_t upper = tile[row * kTileWords + column / 2], lower = tile[(row + 1) * kTileWords + column / 2];
  return column % 2 == 0 ? (upper & 0xFFFF) | lower << 16 : upper >> 16 | (lower & 0xFFFF0000);
}

template <class T, int kEights>
__device__ __forceinline__ void add_to_sums(float (&s)[kEights][4], Shared<uint32_t> tile, Shared<uint32_t> factor) {
  const int lane = threadIdx.x % kWarp, row = threadIdx.x / kWarp * 16 + lane / 4;
#pragma unroll(kTensorCores<kIsBf16<T>> ? 4 : 1)
  for (int k = 0; k < kThinColumns / 2; k += 8) {
    const int word = k + lane % 4;
    const uint32_t left[4] = {tile[row * kTileWords + word], tile[(row + 8) * kTileWords + word], tile[row * kTileWords + word + 4],
                              tile[(row + 8) * kTileWords + word + 4]};
#pragma unroll
    for (int n = 0; n < kEights; ++n) {
      const int at = (n * 8 + lane / 4) * kTileWords + word;
      const uint32_t right[2] = {factor[at], factor[at + 4]};
      multiply_tile<T>(s[n], left, right);
    }
  }
}

template <class T, int kEights>
__device__ __forceinline__ void add_to_gradient(float (&g)[2][kEights][4], Shared<uint32_t> tile, Shared<uint32_t> sums) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, row = lane % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int column = warp * 32 + half * 16 + lane / 4;
#pragma unroll(kTensorCores<kIsBf16<T>> ? 4 : 1)
    for (int k = 0; k < kThinTokens; k += 16) {
      const uint32_t left[4] = {pair_down(tile, k + row, column), pair_down(tile, k + row, column + 8), pair_down(tile, k + row + 8, column),
                                pair_down(tile, k + row + 8, column + 8)};
#pragma unroll
      for (int n = 0; n < kEights; ++n) {
        const int at = (n * 8 + lane / 4) * kSumsWords + (k + row) / 2;
        const uint32_t right[2] = {sums[at], sums[at + 4]};
        multiply_tile<T>(g[half][n], left, right);
      }
    }
  }
}

// Stores a fragment's numbers of rows `row` and `row` + 8 to [rows, ranks], as far as they are
// among `rows`.
__device__ __forceinline__ void store_fragment(Global<float> to, const float (&d)[4], int64_t row, int64_t rows, int64_t rank, int64_t ranks) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int64_t r = row + i / 2 * 8, c = rank + i % 2;
    if (r < rows && c < ranks) to[r * ranks + c] = d[i];
  }
}

// Returns the sum of `count` partial sums, `step` apart.
__device__ __forceinline__ float total_of(Global<const float> partial, int64_t count, int64_t step) {
  float total = 0;
  for (int64_t i = 0; i < count; ++i) total += partial[i * step];
  return total;
}

template <class T>
__device__ __forceinline__ float scale_of(const ThinArgs<T>& a, int64_t rank) {
  int64_t member = 0;
  while (rank >= a.ranks_until[member]) ++member;
  return a.scale[member];
}

// Writes S of the block's tokens, whose columns are all done.
template <class T>
__device__ __forceinline__ void finish_sums(const ThinArgs<T>& a, const ThinPartOnDevice& part, const ThinPlace& at) {
  for (int64_t i = at.from * part.ranks + threadIdx.x; i < at.to * part.ranks; i += kThinThreads) {
    const int64_t token = i / part.ranks, rank = part.rank_from + i % part.ranks;
    const T sum = narrow<T>(total_of(a.partial + part.sums_at + i, part.blocks, a.tokens * part.ranks) * scale_of(a, rank));
    a.to[token * a.to_stride + rank] = sum;
    if (a.kept != nullptr) a.kept[token * a.kept_stride + rank] = sum;
  }
}

// Adds d B of the block's columns, whose tokens are all done.
template <class T>
__device__ __forceinline__ void finish_gradient(const ThinArgs<T>& a, const ThinPartOnDevice& part, const ThinPlace& at) {
  const int64_t first = at.begin - part.columns_from, end = at.end - part.columns_from;
  for (int64_t i = first * part.ranks + threadIdx.x; i < end * part.ranks; i += kThinThreads)
    part.d_b[i / part.ranks * part.d_b_stride + i % part.ranks] +=
        total_of(a.partial + part.gradient_at + i, gridDim.y, part.columns * part.ranks);
}

// True if all other blocks of the counter are done; the counter is then reset.
__device__ __forceinline__ bool is_last(Global<uint32_t> counter, int64_t blocks) {
  const bool last = atomicAdd(counter, 1u) == blocks - 1;
  if (last) atomicExch(counter, 0u);
  return last;
}

template <class T, int kEights, bool kBackward, int N, class Source>
__global__ void __launch_bounds__(kThinThreads) thin_kernel(ThinArgs<T> a) {
  constexpr int kRanks = 8 * kEights, kTiles = kBackward ? kMostTiles<kRanks> : kForwardTiles;
  FORGE_SHARED(uint32_t, tile, kThinTokens* kTileWords);
  FORGE_SHARED(uint32_t, factor, kRanks* kTileWords);
  FORGE_SHARED(uint32_t, sums, kBackward ? kRanks * kSumsWords : 1);
  FORGE_SHARED(int, last, 2);
  const ThinPlace at = place_of(a);
  const ThinPartOnDevice& part = a.part[at.part];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t block = blockIdx.x - part.first_block;
  float gradient[kBackward ? kTiles : 1][2][kEights][4] = {};
  for (int64_t token = at.from; token < at.to; token += kThinTokens) {
    float s[kEights][4] = {};
#pragma unroll(kBackward ? kTiles : 1)  // gradient[] is in registers
    for (int c = 0; c < kTiles; ++c) {
      const int64_t column = at.begin + c * kThinColumns;
      if (column >= at.end) break;
      __syncthreads();
      load_tile<N, Source::template kLoads<kEights>, Source>(a, at, token, column, tile);
      load_factor<kRanks, kBackward>(a, part, at, column, factor);
      if (kBackward && c == 0) load_sums<kRanks>(a, part, at, token, sums);
      __syncthreads();
      add_to_sums<T>(s, tile, factor);
      if constexpr (kBackward) add_to_gradient<T>(gradient[c], tile, sums);
    }
#pragma unroll
    for (int n = 0; n < kEights; ++n)
      store_fragment(a.partial + part.sums_at + block * a.tokens * part.ranks, s[n], token + warp * 16 + lane / 4, at.to, n * 8 + lane % 4 * 2,
                     part.ranks);
  }
  if constexpr (kBackward)
#pragma unroll
    for (int c = 0; c < kTiles; ++c)
      for (int half = 0; half < 2; ++half)
        for (int n = 0; n < kEights; ++n)
          store_fragment(a.partial + part.gradient_at + blockIdx.y * part.columns * part.ranks, gradient[c][half][n],
                         at.begin - part.columns_from + c * kThinColumns + warp * 32 + half * 16 + lane / 4, at.end - part.columns_from,
                         n * 8 + lane % 4 * 2, part.ranks);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last[0] = is_last(a.counters + gridDim.x + at.part * gridDim.y + blockIdx.y, part.blocks);
    last[1] = kBackward && is_last(a.counters + blockIdx.x, gridDim.y);
  }
  __syncthreads();
  __threadfence();
  if (last[0]) finish_sums(a, part, at);
  if (kBackward && last[1]) finish_gradient(a, part, at);
}

}  // namespace forge
