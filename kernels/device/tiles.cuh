#pragma once
// Products of small tiles by a warp's tensor cores: d [16, 8] += a [16, 16] b [16, 8], factors in
// 16 bits, sums in fp32.
//
// A lane holds the elements that PTX's mma.m16n8k16 gives it (PTX ISA, "Matrix Fragments for
// mma.m16n8k16 with floating point type"): with g = lane / 4 and t = lane % 4, a word of two
// neighbours along k each,
//
//   a[0], a[1]   rows g, g + 8 of columns 2t, 2t + 1;   a[2], a[3] the same of columns 2t + 8, 2t + 9
//   b[0]         rows 2t, 2t + 1 of column g;           b[1] rows 2t + 8, 2t + 9
//   d[0], d[1]   row g, columns 2t, 2t + 1;             d[2], d[3] row g + 8
#include "kernels/device/reduce.cuh"

namespace forge {

template <class T>
constexpr bool kIsBf16 = false;
template <>
constexpr bool kIsBf16<bf16> = true;

template <class T>
__device__ __forceinline__ float low_half(uint32_t pair) {
  return widen(T{static_cast<uint16_t>(pair)});
}
template <class T>
__device__ __forceinline__ float high_half(uint32_t pair) {
  return widen(T{static_cast<uint16_t>(pair >> 16)});
}
template <class T>
__device__ __forceinline__ uint32_t pair_of(T low, T high) {
  return uint32_t(low.bits) | uint32_t(high.bits) << 16;
}

// Computes multiply_tile without tensor cores, for types that they do not support: each lane asks
// the others for the words that its four sums read.
template <class T>
__device__ __forceinline__ void multiply_tile_by_lanes(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  const int lane = threadIdx.x % kWarp, row = lane / 4, column = lane % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll 1
    for (int t = 0; t < 4; ++t) {
      const uint32_t upper = __shfl_sync(kAllLanes, a[2 * half], row * 4 + t), lower = __shfl_sync(kAllLanes, a[2 * half + 1], row * 4 + t);
      const uint32_t left = __shfl_sync(kAllLanes, b[half], column * 4 + t), right = __shfl_sync(kAllLanes, b[half], (column + 1) * 4 + t);
      d[0] += low_half<T>(upper) * low_half<T>(left) + high_half<T>(upper) * high_half<T>(left);
      d[1] += low_half<T>(upper) * low_half<T>(right) + high_half<T>(upper) * high_half<T>(right);
      d[2] += low_half<T>(lower) * low_half<T>(left) + high_half<T>(lower) * high_half<T>(left);
      d[3] += low_half<T>(lower) * low_half<T>(right) + high_half<T>(lower) * high_half<T>(right);
    }
}

// All lanes of the warp must call.
template <class T>
__device__ __forceinline__ void multiply_tile(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  if (!tensor_cores<kIsBf16<T>>(d, a, b)) multiply_tile_by_lanes<T>(d, a, b);
}

}  // namespace forge
