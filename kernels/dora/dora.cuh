#pragma once
// Forward: one thread a vector of a row; blockIdx.y is the row. Backward: a block takes 32 columns,
// warp w the rows w, w + 8, …, and the warps' sums are added in order, so that no atomics change
// the bits.
#include "kernels/device/reduce.cuh"

namespace forge {

template <class T>
struct DoraForwardArgs {
  Global<const T> x, bias;
  Global<const float> ratio;
  Global<T> y;
  int64_t rows, width, x_stride, y_stride;
};

template <class T, int N>
__global__ void __launch_bounds__(256) dora_forward_kernel(DoraForwardArgs<T> a) {
  const int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (i >= a.width) return;
  float ratio[N], bias[N];
#pragma unroll
  for (int k = 0; k < N; ++k) {
    ratio[k] = a.ratio[i + k];
    bias[k] = a.bias != nullptr ? widen(static_cast<T>(a.bias[i + k])) : 0.0f;
  }
  for (int64_t row = blockIdx.y; row < a.rows; row += gridDim.y) {
    Vector<T, N> x = load_vector<N>(a.x + row * a.x_stride + i);
#pragma unroll
    for (int k = 0; k < N; ++k) x[k] = narrow<T>(widen(x[k]) * ratio[k] + bias[k]);
    store_vector<N>(a.y + row * a.y_stride + i, x);
  }
}

template <class T>
struct DoraBackwardArgs {
  Global<const T> x, d_y;
  Global<const float> ratio, inverse_norm;
  Global<T> d_x;
  Global<float> d_magnitude;
  int64_t rows, width, x_stride, d_y_stride, d_x_stride;
};

constexpr int kDoraWarps = 8;

// A thread reads its d y before it writes d x there.
template <class T>
__global__ void __launch_bounds__(kDoraWarps* kWarp) dora_backward_kernel(DoraBackwardArgs<T> a) {
  FORGE_SHARED(float, part, kDoraWarps* kWarp);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t column = int64_t(blockIdx.x) * kWarp + lane;
  float sum = 0;
  if (column < a.width) {
    const float ratio = a.ratio[column];
    for (int64_t row = warp; row < a.rows; row += kDoraWarps) {
      const float d = widen(static_cast<T>(a.d_y[row * a.d_y_stride + column]));
      sum += d * widen(static_cast<T>(a.x[row * a.x_stride + column]));
      a.d_x[row * a.d_x_stride + column] = narrow<T>(d * ratio);
    }
  }
  part[threadIdx.x] = sum;
  __syncthreads();
  if (warp != 0 || column >= a.width) return;
  sum = 0;
  for (int w = 0; w < kDoraWarps; ++w) sum += part[w * kWarp + lane];
  a.d_magnitude[column] += sum * a.inverse_norm[column];
}

template <class T>
struct DoraRatioArgs {
  Global<const T> weight, a, b, magnitude;
  Global<float> ratio, inverse_norm;
  int64_t in, rank;
  float scale;
};

// One block an output row; its thread i the columns i, i + 256, …
template <class T>
__global__ void __launch_bounds__(256) dora_ratio_kernel(DoraRatioArgs<T> a) {
  FORGE_SHARED(float, scratch, kWarp);
  const int64_t row = blockIdx.x;
  float sum = 0;
  for (int64_t column = threadIdx.x; column < a.in; column += blockDim.x) {
    float product = 0;
    for (int64_t k = 0; k < a.rank; ++k)
      product += widen(static_cast<T>(a.b[row * a.rank + k])) * widen(static_cast<T>(a.a[k * a.in + column]));
    const float merged = product * a.scale + widen(static_cast<T>(a.weight[row * a.in + column]));
    sum += merged * merged;
  }
  sum = reduce_block(sum, 0.0f, Sum(), scratch);
  if (threadIdx.x != 0) return;
  const float inverse = 1.0f / __fsqrt_rn(sum);
  a.inverse_norm[row] = inverse;
  a.ratio[row] = widen(static_cast<T>(a.magnitude[row])) * inverse;
}

}  // namespace forge
