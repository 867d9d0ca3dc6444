#pragma once
// Dequantising: a thread takes eight values of a row, one block's absmax and 16 bytes of a 16-bit
// result. The book is in shared memory: sixteen entries in sixteen banks never collide. Quantising:
// a warp takes one block. Every operation is rounded by itself, as on a CPU.
#include "kernels/device/reduce.cuh"

namespace forge {

template <class T>
struct DequantizeArgs {
  Global<const uint8_t> codes, absmax_codes;
  Global<const float> book, absmax, absmax_scale, absmax_book;
  Global<T> out;
  int64_t rows, columns, out_stride;
  float absmax_mean;
  int block_bits;  // log₂ of the values that share an absmax; −1: a row of any length
};

template <class T>
__device__ __forceinline__ float absmax_of(const DequantizeArgs<T>& a, int64_t block) {
  if (a.absmax != nullptr) return a.absmax[block];
  const float unit = a.absmax_book[static_cast<uint8_t>(a.absmax_codes[block])];
  return __fadd_rn(__fmul_rn(unit, a.absmax_scale[block / 256]), a.absmax_mean);
}

// Stores eight or one values in accesses of at most 16 bytes.
template <class T, int N>
__device__ __forceinline__ void store_values(Global<T> out, const float (&values)[N]) {
  constexpr int kPart = N < kWidest<T> ? N : kWidest<T>;
#pragma unroll
  for (int first = 0; first < N; first += kPart) {
    Vector<T, kPart> part;
#pragma unroll
    for (int k = 0; k < kPart; ++k) part[k] = narrow<T>(values[first + k]);
    store_vector<kPart>(out + first, part);
  }
}

template <class T, bool kFourBit, int N>
__global__ void __launch_bounds__(256) dequantize_kernel(DequantizeArgs<T> a) {
  FORGE_SHARED(float, book, 256);
  for (int i = static_cast<int>(threadIdx.x); i < (kFourBit ? 16 : 256); i += static_cast<int>(blockDim.x))
    book[i] = a.book[i];
  __syncthreads();
  each_vector<N>(a.rows, a.columns, [&](int64_t row, int64_t column) {
    const int64_t first = row * a.columns + column;
    const float absmax = absmax_of(a, a.block_bits < 0 ? row : first >> a.block_bits);
    float values[N];
    if (kFourBit) {
      constexpr int kBytes = N == 1 ? 1 : N / 2;
      const Vector<uint8_t, kBytes> bytes = load_vector<kBytes>(a.codes + first / 2);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const int shift = (N == 1 ? first : k) % 2 == 0 ? 4 : 0;
        values[k] = __fmul_rn(book[bytes[k / 2] >> shift & 15], absmax);
      }
    } else {
      const Vector<uint8_t, N> bytes = load_vector<N>(a.codes + first);
#pragma unroll
      for (int k = 0; k < N; ++k) values[k] = __fmul_rn(book[bytes[k]], absmax);
    }
    store_values<T, N>(a.out + row * a.out_stride + column, values);
  });
}

struct QuantizeArgs {
  Global<const float> values, limits, book;
  Global<const uint8_t> ranked;
  Global<uint8_t> codes;
  Global<float> absmax;
  int64_t count;
  float subtract;
};

// Returns the largest magnitude of the warp's block. NaN is skipped, like in a CPU's max.
template <int kPerLane>
__device__ __forceinline__ float largest_magnitude(const float (&x)[kPerLane]) {
  float largest = 0;
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) largest = fmaxf(largest, fabsf(x[k]));
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, lanes));
  return largest;
}

// Clamps x. NaN becomes −1, like in a CPU's max and min.
__device__ __forceinline__ float clamp_unit(float x) { return fminf(1.0f, fmaxf(-1.0f, x)); }

// Each lane takes two neighbours, one byte. A block shorter than 64, the last, divides instead of
// multiplying, and its absmax is never zero, like in bitsandbytes.
__global__ void __launch_bounds__(256) quantize_four_bit_kernel(QuantizeArgs a) {
  const int64_t block = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / kWarp;
  const int64_t begin = block * 64, i = begin + 2 * (threadIdx.x % kWarp);
  if (begin >= a.count) return;
  constexpr float kSmallest = 1e-38f;
  const bool whole = begin + 64 <= a.count;
  float x[2];
#pragma unroll
  for (int k = 0; k < 2; ++k)
    x[k] = i + k < a.count ? static_cast<float>(a.values[i + k]) - a.subtract : 0.0f;
  const float largest = largest_magnitude<2>(x), guarded = fmaxf(largest, kSmallest);
  if (threadIdx.x % kWarp == 0) a.absmax[block] = whole ? largest : guarded;
  if (i >= a.count) return;
  const float factor = __fdiv_rn(1.0f, guarded);
  int byte = 0;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const float unit = clamp_unit(whole ? __fmul_rn(x[k], factor) : __fdiv_rn(x[k], guarded));
    int below = 0;
    for (int limit = 0; limit < 15; ++limit) below += unit > a.limits[limit];
    byte = byte << 4 | static_cast<uint8_t>(a.ranked[below]);
  }
  a.codes[i / 2] = static_cast<uint8_t>(byte);
}

// Returns the code of the dynamic map for one of the 65,536 equal steps of [−1, 1] through which
// bitsandbytes quantises on a CPU: the number of midpoints between neighbours below the step's
// value.
__device__ __forceinline__ uint8_t code_of_step(uint32_t step, Shared<float> book) {
  const float value = __fadd_rn(-1.0f, __fdiv_rn(__fmul_rn(2.0f, static_cast<float>(step)), 65535.0f));
  int low = 0, high = 255;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (__fmul_rn(0.5f, __fadd_rn(book[middle], book[middle + 1])) < value)
      low = middle + 1;
    else
      high = middle;
  }
  return static_cast<uint8_t>(low);
}

template <int kBlock>
__global__ void __launch_bounds__(256) quantize_bytes_kernel(QuantizeArgs a) {
  constexpr int kPerLane = kBlock / kWarp;
  FORGE_SHARED(float, book, 256);
  for (int i = static_cast<int>(threadIdx.x); i < 256; i += static_cast<int>(blockDim.x)) book[i] = a.book[i];
  __syncthreads();
  const int64_t block = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / kWarp;
  const int64_t first = block * kBlock + threadIdx.x % kWarp;
  if (block * kBlock >= a.count) return;
  float x[kPerLane];
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) {
    const int64_t i = first + k * kWarp;
    x[k] = i < a.count ? static_cast<float>(a.values[i]) - a.subtract : 0.0f;
  }
  const float largest = largest_magnitude<kPerLane>(x);
  if (threadIdx.x % kWarp == 0) a.absmax[block] = largest;
  const float factor = __fdiv_rn(1.0f, largest);
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) {
    const int64_t i = first + k * kWarp;
    if (i >= a.count) break;
    const float unit = clamp_unit(__fmul_rn(x[k], factor));
    const float step = __fadd_rn(__fmul_rn(__fmul_rn(__fadd_rn(unit, 1.0f), 0.5f), 65535.0f), 0.5f);
    a.codes[i] = largest == 0 ? uint8_t(0) : code_of_step(static_cast<uint32_t>(step) & 0xFFFF, book);
  }
}

}  // namespace forge
