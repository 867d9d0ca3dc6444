#pragma once
// AdamW on 8-bit states: a warp takes a block of 256 elements, eight a lane, so absmax needs no shared
// memory. The maps lie in shared memory.
#include "kernels/optimizer/optimizer_args.cuh"

namespace forge {

constexpr int kStateBlock = 256, kStatesPerLane = kStateBlock / kWarp;

template <class C>
struct Update8bitArgs {
  UpdateArgs a;
  Global<C> cast;
  Global<uint8_t> m_codes, v_codes;
  Global<float> m_absmax, v_absmax;
  Global<const float> m_book, v_book;
};

// The nearest entry of an ascending map.
__device__ __forceinline__ int nearest_code(float x, Shared<float> book) {
  int low = 0, high = 255;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (0.5f * (book[middle] + book[middle + 1]) < x)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

__device__ __forceinline__ float largest_of_warp(float x) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, lanes));
  return x;
}

template <class C>
__global__ void __launch_bounds__(256) adamw_8bit_kernel(Update8bitArgs<C> args) {
  FORGE_SHARED(float, m_book, 256);
  FORGE_SHARED(float, v_book, 256);
  m_book[threadIdx.x] = args.m_book[threadIdx.x];
  v_book[threadIdx.x] = args.v_book[threadIdx.x];
  __syncthreads();
  const UpdateArgs& a = args.a;
  const UpdateScalars s = *a.scalars;
  const StepScale scale = step_scale(*a.norm, s);
  const int64_t block = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / kWarp;
  const int64_t first = block * kStateBlock + threadIdx.x % kWarp;
  if (scale.skip || block * kStateBlock >= a.count) return;
  const float m_old = args.m_absmax[block], v_old = args.v_absmax[block];
  float m[kStatesPerLane], v[kStatesPerLane], m_largest = 0, v_largest = 0;
#pragma unroll
  for (int k = 0; k < kStatesPerLane; ++k) {
    const int64_t i = first + k * kWarp;
    m[k] = v[k] = 0;
    if (i >= a.count) break;
    const float g = a.grad[i] * scale.grad;
    m[k] = m_book[static_cast<uint8_t>(args.m_codes[i])] * m_old * a.beta1 + (1 - a.beta1) * g;
    v[k] = v_book[static_cast<uint8_t>(args.v_codes[i])] * v_old * a.beta2 + (1 - a.beta2) * g * g;
    m_largest = fmaxf(m_largest, fabsf(m[k]));
    v_largest = fmaxf(v_largest, fabsf(v[k]));
  }
  m_largest = largest_of_warp(m_largest);
  v_largest = largest_of_warp(v_largest);
  if (threadIdx.x % kWarp == 0) {
    args.m_absmax[block] = m_largest;
    args.v_absmax[block] = v_largest;
  }
  RangeCursor cursor(a);
  const float root = __fsqrt_rn(s.correction2);
#pragma unroll
  for (int k = 0; k < kStatesPerLane; ++k) {
    const int64_t i = first + k * kWarp;
    if (i >= a.count) break;
    const UpdateRange& range = cursor.at(a, i);
    const float rate = s.learning_rate * range.rate_factor;
    float p = a.master[i];
    p -= rate * root / s.correction1 * (m[k] / (__fsqrt_rn(v[k]) + root * a.eps));
    p *= 1 - rate * range.weight_decay;
    a.master[i] = p;
    if (args.cast != nullptr) args.cast[i] = narrow<C>(p);
    int code = nearest_code(m_largest > 0 ? m[k] / m_largest : 0.0f, m_book);
    // m keeps its sign: an update that turned round would grow instead of shrink.
    const bool negative = __float_as_uint(m_book[code]) >> 31;
    if (negative != static_cast<bool>(__float_as_uint(m[k]) >> 31)) code += m[k] > 0 ? 1 : code > 0 ? -1 : 0;
    args.m_codes[i] = static_cast<uint8_t>(code);
    args.v_codes[i] = static_cast<uint8_t>(nearest_code(v_largest > 0 ? v[k] / v_largest : 0.0f, v_book));
  }
}

}  // namespace forge
