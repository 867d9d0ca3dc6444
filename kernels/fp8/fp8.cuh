#pragma once
// Quantising: a block takes a row twice, for its largest magnitude and, out of a cache, for its
// codes. Transposing: a block takes a square of 64 bytes a side by way of shared memory, so that
// both sides are read and written in whole segments.
#include "kernels/device/reduce.cuh"
#undef FORGE_E4M3
#define FORGE_E4M3 __device__ __forceinline__
#include "kernels/fp8/e4m3.h"

namespace forge {

template <class T>
struct QuantizeRowsArgs {
  Global<const T> x;
  Global<const float> factors;
  Global<uint8_t> codes;
  Global<float> scales;
  int64_t columns, x_stride, codes_stride;
};

// x_ij f_j of N neighbours.
template <class T, int N>
__device__ __forceinline__ void load_factored(Global<const T> x, Global<const float> factors, int64_t i, float (&values)[N]) {
  const Vector<T, N> row = load_vector<N>(x + i);
#pragma unroll
  for (int k = 0; k < N; ++k) values[k] = factors != nullptr ? __fmul_rn(widen(row[k]), factors[i + k]) : widen(row[k]);
}

template <class T, int N>
__global__ void __launch_bounds__(256) quantize_rows_kernel(QuantizeRowsArgs<T> a) {
  FORGE_SHARED(float, scratch, 32);
  const int64_t row = blockIdx.x, first = int64_t(threadIdx.x) * N, step = int64_t(blockDim.x) * N;
  const Global<const T> x = a.x + row * a.x_stride;
  float values[N], largest = 0;
  for (int64_t i = first; i < a.columns; i += step) {
    load_factored<T, N>(x, a.factors, i, values);
#pragma unroll
    for (int k = 0; k < N; ++k) largest = Maximum()(fabsf(values[k]), largest);
  }
  largest = reduce_block(largest, 0.0f, Maximum(), scratch);
  const bool empty = largest < kSmallestRow;
  const float factor = empty ? 0.0f : __fdiv_rn(kE4m3Largest, largest);
  if (threadIdx.x == 0) a.scales[row] = empty ? 1.0f : __fdiv_rn(largest, kE4m3Largest);
  for (int64_t i = first; i < a.columns; i += step) {
    load_factored<T, N>(x, a.factors, i, values);
    Vector<uint8_t, N> codes;
#pragma unroll
    for (int k = 0; k < N; ++k) codes[k] = static_cast<uint8_t>(e4m3_of_bits(__float_as_uint(__fmul_rn(values[k], factor))));
    store_vector<N>(a.codes + row * a.codes_stride + i, codes);
  }
}

struct TransposeBytesArgs {
  Global<const uint8_t> x;
  Global<uint8_t> y;
  int64_t rows, columns, across;  // across: squares side by side in a row of x
};

constexpr int kSquare = 64;  // bytes a side

// Each thread accesses N bytes at once: four, or one if rows do not begin at multiples of four.
template <int N>
__global__ void __launch_bounds__(256) transpose_bytes_kernel(TransposeBytesArgs a) {
  // The pitch is a word more than a row, so that the bytes of a column are in different banks.
  constexpr int kPitch = kSquare + 4, kLanes = kSquare / N, kTogether = 256 / kLanes;
  FORGE_SHARED(uint8_t, square, kSquare * kPitch);
  const int64_t down = blockIdx.x / a.across, right = blockIdx.x % a.across;
  const int lane = threadIdx.x % kLanes * N, line = threadIdx.x / kLanes;
  for (int r = line; r < kSquare; r += kTogether) {
    const int64_t row = down * kSquare + r, column = right * kSquare + lane;
    if (row >= a.rows || column >= a.columns) continue;
    const Vector<uint8_t, N> bytes = load_vector<N>(a.x + row * a.columns + column);
#pragma unroll
    for (int k = 0; k < N; ++k) square[r * kPitch + lane + k] = bytes[k];
  }
  __syncthreads();
  for (int r = line; r < kSquare; r += kTogether) {
    const int64_t row = right * kSquare + r, column = down * kSquare + lane;  // of y
    if (row >= a.columns || column >= a.rows) continue;
    Vector<uint8_t, N> bytes;
#pragma unroll
    for (int k = 0; k < N; ++k) bytes[k] = square[(lane + k) * kPitch + r];
    store_vector<N>(a.y + row * a.rows + column, bytes);
  }
}

}  // namespace forge
