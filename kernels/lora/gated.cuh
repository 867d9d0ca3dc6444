#pragma once
// Gated activations with the adapters beside them (gated_args.h).
//
// In the forward, thin_kernel (folded.cuh) computes its wide operand from gate and up and stores
// it.
//
// In the backward, a warp takes 32 columns of 16 tokens at a time down the block's stretch of
// tokens. Elements are read once, in vectors. The results stay in registers until they are written
// to the warp's own tile in shared memory, one of the three after the other:
//
//   y        d A   [32, ranks] += tileᵀ · d S             in registers down all tokens
//   d gate   d B   [32, ranks] += tileᵀ · S               likewise;  d S [16, ranks] of 32 columns = tile · B, whose part a lane holds
//   d up     likewise
//
// After each 16 tokens the block adds up its warps' d S in their order. The results of blocks side
// by side for d S, and those of blocks one below the other for d A and d B, are parts that the last
// of these blocks adds up in their order, as in folded.cuh.
#include "kernels/activation/functions.cuh"
#include "kernels/lora/folded.cuh"
#include "kernels/lora/gated_limits.h"

namespace forge {

// One kernel serves both functions: the branch is the same for all threads, and costs much less
// than the exp in either.
__device__ __forceinline__ Activated gated(bool gelu, float x) { return gelu ? GeluTanh()(x) : Silu()(x); }

struct Gated {
  template <int kEights>
  static constexpr int kLoads = kEights == 4 ? 2 : 4;  // more spill on sm_100
  template <int N, class T>
  static __device__ __forceinline__ Vector<T, N> load(const ThinArgs<T>& a, int64_t row, int64_t column) {
    Vector<T, N> y = load_vector<N>(a.wide + row * a.wide_stride + column);
    const Vector<T, N> up = load_vector<N>(a.up + row * a.up_stride + column);
#pragma unroll
    for (int k = 0; k < N; ++k) y[k] = narrow<T>(gated(a.gelu, widen(y[k])).value * widen(up[k]));
    store_vector<N>(a.y + row * a.y_stride + column, y);
    return y;
  }
};

// Words of two neighbours from row to row: four more than needed, so that a fragment's 32 words are
// in 32 banks.
constexpr int kGatedRow = kGatedColumns / 2 + 4, kGatedSumsRow = kGatedTokens / 2 + 4;

// An adapter that reads y (side 0), or the one of gate or up.
template <class T>
struct GatedSideOnDevice {
  Global<const T> factor, sums;  // B; d S of the one that reads y, S of the others
  Global<T> d_s;
  Global<float> gradient;        // of A or B
  int64_t factor_stride, sums_stride, d_s_stride, ranks, sums_at, gradient_at;
  float scale;
};

template <class T>
struct GatedGradientArgs {
  Global<const T> d_y;
  Global<T> gate, up;
  Global<float> partial;
  Global<uint32_t> counters;
  int64_t d_y_stride, gate_stride, up_stride, tokens, tokens_each, width;
  bool gelu;
  GatedSideOnDevice<T> side[3];
};

// A warp's 16 tokens and 32 columns of y, d gate and d up in its lanes' registers: N neighbours of
// a row in each step.
template <int N>
struct GatedTile {
  static constexpr int kEach = N == 1 ? 2 : N, kLanes = kGatedColumns / kEach, kSteps = kGatedTokens / kEach;
  uint32_t words[3][kSteps][kEach / 2];

  static __device__ __forceinline__ int row(int step) { return step * (kWarp / kLanes) + threadIdx.x % kWarp / kLanes; }
  static __device__ __forceinline__ int column() { return threadIdx.x % kLanes * kEach; }
};

// Turns N neighbours of gate, up and d y into d gate, d up and y in the same registers, and writes
// d gate and d up to memory.
template <int N, class T>
__device__ __forceinline__ void gate_back(const GatedGradientArgs<T>& a, int64_t row, int64_t column, Vector<T, N>& y, Vector<T, N>& gate,
                                          Vector<T, N>& up) {
  const Global<T> gate_at = a.gate + row * a.gate_stride + column, up_at = a.up + row * a.up_stride + column;
  y = load_vector<N>(a.d_y + row * a.d_y_stride + column), gate = load_vector<N>(gate_at), up = load_vector<N>(up_at);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const Activated f = gated(a.gelu, widen(gate[k]));
    const float d = widen(y[k]), u = widen(up[k]);
    gate[k] = narrow<T>(d * u * f.slope);
    up[k] = narrow<T>(d * f.value);
    y[k] = narrow<T>(f.value * u);
  }
  store_vector<N>(gate_at, gate), store_vector<N>(up_at, up);
}

// Computes a tile, with zeros past the ends. Vectors end where the width does.
template <int N, class T>
__device__ __forceinline__ void gate_tile_back(const GatedGradientArgs<T>& a, int64_t token, int64_t to, int64_t begin, GatedTile<N>& tile) {
  constexpr int kEach = GatedTile<N>::kEach;
  const int64_t column = begin + tile.column();
#pragma unroll
  for (int step = 0; step < tile.kSteps; ++step) {
    const int64_t row = token + tile.row(step);
    Vector<T, kEach> y{}, gate{}, up{};
    if constexpr (N > 1) {
      if (row < to && column < a.width) gate_back(a, row, column, y, gate, up);
    } else {
      for (int k = 0; row < to && k < kEach && column + k < a.width; ++k) {
        Vector<T, 1> one_y, one_gate, one_up;
        gate_back(a, row, column + k, one_y, one_gate, one_up);
        y[k] = one_y[0], gate[k] = one_gate[0], up[k] = one_up[0];
      }
    }
#pragma unroll
    for (int k = 0; k < kEach; k += 2) {
      tile.words[0][step][k / 2] = pair_of(y[k], y[k + 1]);
      tile.words[1][step][k / 2] = pair_of(gate[k], gate[k + 1]);
      tile.words[2][step][k / 2] = pair_of(up[k], up[k + 1]);
    }
  }
}

// Loads [ranks, 16 tokens] of d S and both S.
template <int kRanks, class T>
__device__ __forceinline__ void load_gated_sums(const GatedGradientArgs<T>& a, int64_t token, int64_t to, Shared<uint32_t> sums) {
  for (int i = threadIdx.x; i < 3 * kRanks * kGatedTokens / 2; i += blockDim.x) {
    const int side = i / (kRanks * kGatedTokens / 2), rank = i % kRanks, word = i / kRanks % (kGatedTokens / 2);
    const GatedSideOnDevice<T>& s = a.side[side];
    const auto value = [&](int64_t row) {
      return rank < s.ranks && row < to ? static_cast<T>(s.sums[row * s.sums_stride + rank]) : T{};
    };
    sums[(side * kRanks + rank) * kGatedSumsRow + word] = pair_of(value(token + 2 * word), value(token + 2 * word + 1));
  }
}

__device__ __forceinline__ uint32_t gated_pair_down(Shared<uint32_t> tile, int row, int column) {
  const uint32_t upper = tile[row * kGatedRow + column / 2], lower = tile[(row + 1) * kGatedRow + column / 2];
  return column % 2 == 0 ? (upper & 0xFFFF) | lower << 16 : upper >> 16 | (lower & 0xFFFF0000);
}

// Adds up the warps' parts of d S in their order, and stores the sum as the block's partial sum.
template <int kRanks, int kArea, class T>
__device__ __forceinline__ void add_warps(const GatedGradientArgs<T>& a, int64_t token, int64_t to, Shared<uint32_t> areas) {
  for (int i = threadIdx.x; i < kGatedTokens * 2 * kRanks; i += blockDim.x) {
    const int row = i / (2 * kRanks), rank = i % kRanks;
    const GatedSideOnDevice<T>& s = a.side[1 + i % (2 * kRanks) / kRanks];
    if (rank >= s.ranks || token + row >= to) continue;
    float total = 0;
    for (int warp = 0; warp < int(blockDim.x) / kWarp; ++warp)
      total += __uint_as_float(areas[warp * kArea + row * (2 * kRanks + 4) + i % (2 * kRanks)]);
    a.partial[s.sums_at + (blockIdx.x * a.tokens + token + row) * s.ranks + rank] = total;
  }
}

// Writes d S of the block's tokens, whose columns are all done.
template <class T>
__device__ __forceinline__ void finish_gated_sums(const GatedGradientArgs<T>& a, int64_t from, int64_t to) {
  for (int side = 1; side < 3; ++side) {
    const GatedSideOnDevice<T>& s = a.side[side];
    for (int64_t i = from * s.ranks + threadIdx.x; i < to * s.ranks; i += blockDim.x)
      s.d_s[i / s.ranks * s.d_s_stride + i % s.ranks] = narrow<T>(total_of(a.partial + s.sums_at + i, gridDim.x, a.tokens * s.ranks) * s.scale);
  }
}

// Adds d A and d B of the block's columns, whose tokens are all done: A's rows are ranks, B's are
// columns.
template <class T>
__device__ __forceinline__ void finish_gated_gradients(const GatedGradientArgs<T>& a, int64_t begin, int64_t end) {
  for (int side = 0; side < 3; ++side) {
    const GatedSideOnDevice<T>& s = a.side[side];
    for (int64_t i = threadIdx.x; i < (end - begin) * s.ranks; i += blockDim.x) {
      const int64_t at = side > 0 ? begin * s.ranks + i : i / (end - begin) * a.width + begin + i % (end - begin);
      s.gradient[at] += total_of(a.partial + s.gradient_at + at, gridDim.y, a.width * s.ranks);
    }
  }
}

// Reads B of gate and up as fragments of the warp's 32 columns.
template <class T, int kEights>
__device__ __forceinline__ void load_gated_factors(const GatedGradientArgs<T>& a, int64_t column,
                                                   uint32_t (&factor)[2][2][kEights][2]) {
  const int group = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < 8 * kEights; ++i) {
    const int side = i / (4 * kEights), half = i / (2 * kEights) % 2, n = i / 2 % kEights, word = i % 2, rank = n * 8 + group;
    const GatedSideOnDevice<T>& s = a.side[1 + side];
    const int64_t first = column + half * 16 + word * 8 + 2 * t;
    const auto value = [&](int64_t k) {
      return rank < s.ranks && k < a.width ? static_cast<T>(s.factor[k * s.factor_stride + rank]) : T{};
    };
    factor[side][half][n][word] = pair_of(value(first), value(first + 1));
  }
}

// Adds the products of a side's tile: with S to the gradient of its factor, and with B, for gate
// and up, to d S.
template <class T, int kEights>
__device__ __forceinline__ void multiply_gated_side(int side, const Shared<uint32_t>& tile, const Shared<uint32_t>& sums,
                                                    const uint32_t (&factor)[2][2][kEights][2],
                                                    float (&gradient)[3][2][kEights][4], float (&s)[2][kEights][4]) {
  constexpr int kRanks = 8 * kEights;
  const int group = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int at = half * 16 + group;
    const uint32_t down[4] = {gated_pair_down(tile, 2 * t, at), gated_pair_down(tile, 2 * t, at + 8), gated_pair_down(tile, 2 * t + 8, at),
                              gated_pair_down(tile, 2 * t + 8, at + 8)};
#pragma unroll
    for (int n = 0; n < kEights; ++n) {
      const int place = (side * kRanks + n * 8 + group) * kGatedSumsRow + t;
      const uint32_t right[2] = {sums[place], sums[place + 4]};
      multiply_tile<T>(gradient[side][half][n], down, right);
    }
    if (side == 0) continue;
    const int word = group * kGatedRow + half * 8 + t;
    const uint32_t along[4] = {tile[word], tile[word + 8 * kGatedRow], tile[word + 4], tile[word + 8 * kGatedRow + 4]};
#pragma unroll
    for (int n = 0; n < kEights; ++n) multiply_tile<T>(s[side - 1][n], along, factor[side - 1][half][n]);
  }
}

// Writes the block's part of the gradients.
template <class T, int kEights>
__device__ __forceinline__ void write_gated_part(const GatedGradientArgs<T>& a, int64_t column,
                                                 const float (&gradient)[3][2][kEights][4]) {
  const int group = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < 3 * 2 * kEights * 4; ++i) {
    const int side = i / (2 * kEights * 4), half = i / (kEights * 4) % 2, n = i / 4 % kEights, d = i % 4;
    const GatedSideOnDevice<T>& one = a.side[side];
    const int64_t at = column + half * 16 + group + d / 2 * 8, rank = n * 8 + 2 * t + d % 2;
    if (at < a.width && rank < one.ranks)
      a.partial[one.gradient_at + blockIdx.y * a.width * one.ranks + (side > 0 ? at * one.ranks + rank : rank * a.width + at)] =
          gradient[side][half][n][d];
  }
}

template <class T, int kEights, int N>
__global__ void __launch_bounds__(kGatedWarps<8 * kEights> * kWarp) gated_gradients_kernel(GatedGradientArgs<T> a) {
  // A warp's own shared memory holds its tile, or its d S of both sides, whose rows have four extra
  // words against bank conflicts.
  constexpr int kRanks = 8 * kEights, kWarps = kGatedWarps<kRanks>, kArea = kGatedTokens * (2 * kRanks + 4);
  static_assert(kArea >= kGatedTokens * kGatedRow);
  FORGE_SHARED(uint32_t, areas, kWarps* kArea);
  FORGE_SHARED(uint32_t, sums, 3 * kRanks * kGatedSumsRow);
  FORGE_SHARED(int, last, 2);
  const int warp = threadIdx.x / kWarp, group = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
  const Shared<uint32_t> tile = areas + warp * kArea;
  const int64_t begin = blockIdx.x * int64_t(kWarps * kGatedColumns), column = begin + warp * kGatedColumns;
  const int64_t from = blockIdx.y * a.tokens_each, to = from + a.tokens_each < a.tokens ? from + a.tokens_each : a.tokens;

  uint32_t factor[2][2][kEights][2];
  load_gated_factors(a, column, factor);
  float gradient[3][2][kEights][4] = {};
  for (int64_t token = from; token < to; token += kGatedTokens) {
    GatedTile<N> made;
    gate_tile_back(a, token, to, column, made);
    load_gated_sums<kRanks>(a, token, to, sums);
    __syncthreads();
    float s[2][kEights][4] = {};
#pragma unroll
    for (int side = 0; side < 3; ++side) {
      if (a.side[side].ranks == 0 || column >= a.width) continue;
      __syncwarp();
#pragma unroll
      for (int i = 0; i < made.kSteps * made.kEach / 2; ++i) {
        const int step = i / (made.kEach / 2), word = i % (made.kEach / 2);
        tile[made.row(step) * kGatedRow + made.column() / 2 + word] = made.words[side][step][word];
      }
      __syncwarp();
      multiply_gated_side<T>(side, tile, sums, factor, gradient, s);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 2 * kEights * 4; ++i) {
      const int side = i / (kEights * 4), n = i / 4 % kEights, d = i % 4;
      tile[(group + d / 2 * 8) * (2 * kRanks + 4) + side * kRanks + n * 8 + 2 * t + d % 2] = __float_as_uint(s[side][n][d]);
    }
    __syncthreads();
    add_warps<kRanks, kArea>(a, token, to, areas);
  }

  write_gated_part(a, column, gradient);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last[0] = is_last(a.counters + gridDim.x + blockIdx.y, gridDim.x);
    last[1] = is_last(a.counters + blockIdx.x, gridDim.y);
  }
  __syncthreads();
  __threadfence();
  if (last[0]) finish_gated_sums(a, from, to);
  const int64_t end = begin + kWarps * kGatedColumns;
  if (last[1]) finish_gated_gradients(a, begin, end < a.width ? end : a.width);
}

}  // namespace forge
