#pragma once
// Reductions over a warp and a block. The order of the additions is fixed, so results do not depend
// on timing.
#include "kernels/device/numbers.cuh"

namespace forge {

constexpr int kWarp = 32;
constexpr uint32_t kAllLanes = 0xFFFFFFFF;

struct Sum {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Maximum {
  // Keeps a NaN of either side, which fmaxf would drop.
  __device__ __forceinline__ float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};

// Every lane gets the result. All lanes of the warp must call.
template <class T, class Combine>
__device__ __forceinline__ T reduce_warp(T value, Combine combine) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2)
    value = combine(value, __shfl_xor_sync(kAllLanes, value, lanes));
  return value;
}

// Every thread gets the result; `identity` is neutral. All threads must call; blocks are whole
// warps. `scratch` holds 32 values and may be used again after the call.
template <class T, class Combine>
__device__ __forceinline__ T reduce_block(T value, T identity, Combine combine, Shared<T> scratch) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  value = reduce_warp(value, combine);
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  value = lane < warps ? static_cast<T>(scratch[lane]) : identity;
  value = reduce_warp(value, combine);
  __syncthreads();
  return value;
}

}  // namespace forge
