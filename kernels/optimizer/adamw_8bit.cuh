#pragma once
// AdamW on 8-bit states: a warp takes a block of 256 elements, eight a lane, so absmax needs no
// shared memory. The maps are in shared memory.
#include "kernels/optimizer/update.cuh"

namespace forge {

constexpr int kStatesPerLane = 8, kStatesPerWarp = kStatesPerLane * kWarp;

template <class C>
struct Update8bitArgs {
  UpdateArgs a;
  Global<C> copy;
  Global<uint8_t> mean, square;
  Global<float> mean_absmax, square_absmax;
  Global<const float> signed_map, unsigned_map;
};

// Returns the nearest entry of an ascending map, the lower one of a tie.
__device__ __forceinline__ uint8_t nearest_code(float x, float absmax, Shared<float> map) {
  const float unit = absmax > 0 ? fminf(1.0f, fmaxf(-1.0f, __fdiv_rn(x, absmax))) : 0.0f;
  int lower = 0, upper = 255;
  for (int round = 0; round < 8; ++round) {
    const int middle = (lower + upper) / 2;
    if (unit > map[middle])
      lower = middle;
    else
      upper = middle;
  }
  return static_cast<uint8_t>(fabsf(unit - map[lower]) <= fabsf(unit - map[upper]) ? lower : upper);
}

__device__ __forceinline__ float largest_of_warp(float x) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, lanes));
  return x;
}

template <class C>
__global__ void __launch_bounds__(256) adamw_8bit_kernel(Update8bitArgs<C> args) {
  FORGE_SHARED(float, signed_map, 256);
  FORGE_SHARED(float, unsigned_map, 256);
  signed_map[threadIdx.x] = args.signed_map[threadIdx.x];
  unsigned_map[threadIdx.x] = args.unsigned_map[threadIdx.x];
  __syncthreads();
  const UpdateArgs& a = args.a;
  const int64_t block = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / kWarp;
  const int64_t first = block * kStatesPerWarp + threadIdx.x % kWarp;
  if (a.verdict[2] == 0 || block * kStatesPerWarp >= a.count) return;
  const float scale = a.verdict[1], mean_old = args.mean_absmax[block],
              square_old = args.square_absmax[block];
  const UpdateRates& r = a.rates;
  float mean[kStatesPerLane], square[kStatesPerLane], mean_largest = 0, square_largest = 0;
#pragma unroll
  for (int k = 0; k < kStatesPerLane; ++k) {
    const int64_t i = first + k * kWarp;
    mean[k] = square[k] = 0;
    if (i >= a.count) break;
    const float g = __fmul_rn(a.grad[i], scale);
    const float m = __fmul_rn(signed_map[static_cast<uint8_t>(args.mean[i])], mean_old);
    const float v = __fmul_rn(unsigned_map[static_cast<uint8_t>(args.square[i])], square_old);
    mean[k] = __fadd_rn(__fmul_rn(m, r.beta1), __fmul_rn(r.one_beta1, g));
    square[k] = __fadd_rn(__fmul_rn(v, r.beta2), __fmul_rn(__fmul_rn(r.one_beta2, g), g));
    mean_largest = fmaxf(mean_largest, fabsf(mean[k]));
    square_largest = fmaxf(square_largest, fabsf(square[k]));
  }
  mean_largest = largest_of_warp(mean_largest);
  square_largest = largest_of_warp(square_largest);
  // Every lane has read the old absmax: the shuffles come in between.
  if (threadIdx.x % kWarp == 0) {
    args.mean_absmax[block] = mean_largest;
    args.square_absmax[block] = square_largest;
  }
  RatesCursor<false> cursor(a);
#pragma unroll
  for (int k = 0; k < kStatesPerLane; ++k) {
    const int64_t i = first + k * kWarp;
    if (i >= a.count) break;
    const float weight = stepped(cursor.at(a, i), a.weight[i], mean[k], square[k]);
    a.weight[i] = weight;
    if (args.copy != nullptr) args.copy[i] = narrow<C>(weight);
    args.mean[i] = nearest_code(mean[k], mean_largest, signed_map);
    args.square[i] = nearest_code(square[k], square_largest, unsigned_map);
  }
}

}  // namespace forge
