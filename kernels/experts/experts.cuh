#pragma once
// Rows of experts. Elementwise: a thread takes a vector of columns (blockIdx.x) of some tokens
// (blockIdx.y). Sums over the width: a warp takes a row.
#include "kernels/device/reduce.cuh"

namespace forge {

template <class T>
struct ExpertRowsArgs {
  Global<const int32_t> places;
  Global<T> x, rows;
  int64_t tokens, per_token, width, x_stride;
  int back, accumulate;
};

template <class T, int N>
__global__ void __launch_bounds__(256) expert_rows_kernel(ExpertRowsArgs<T> a) {
  each_vector<N>(a.tokens, a.width, [&](int64_t token, int64_t i) {
    const Global<T> x = a.x + token * a.x_stride + i;
    if (!a.back) {
      const Vector<T, N> value = load_vector<N>(x);
      for (int64_t j = 0; j < a.per_token; ++j)
        store_vector<N>(a.rows + int64_t(a.places[token * a.per_token + j]) * a.width + i, value);
      return;
    }
    float sum[N] = {};
    if (a.accumulate) {
      const Vector<T, N> before = load_vector<N>(x);
#pragma unroll
      for (int k = 0; k < N; ++k) sum[k] = widen(before[k]);
    }
    for (int64_t j = 0; j < a.per_token; ++j) {
      const Vector<T, N> row =
          load_vector<N>(a.rows + int64_t(a.places[token * a.per_token + j]) * a.width + i);
#pragma unroll
      for (int k = 0; k < N; ++k) sum[k] += widen(row[k]);
    }
    Vector<T, N> y;
#pragma unroll
    for (int k = 0; k < N; ++k) y[k] = narrow<T>(sum[k]);
    store_vector<N>(x, y);
  });
}

template <class T>
struct ExpertCombineArgs {
  Global<const int32_t> places;
  Global<const float> weights;
  Global<const T> rows;
  Global<T> y;
  int64_t tokens, per_token, width, y_stride;
};

template <class T, int N>
__global__ void __launch_bounds__(256) expert_combine_kernel(ExpertCombineArgs<T> a) {
  const int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (i >= a.width) return;
  for (int64_t token = blockIdx.y; token < a.tokens; token += gridDim.y) {
    float sum[N] = {};
    for (int64_t slot = token * a.per_token; slot < (token + 1) * a.per_token; ++slot) {
      const float weight = a.weights[slot];
      const Vector<T, N> row = load_vector<N>(a.rows + int64_t(a.places[slot]) * a.width + i);
#pragma unroll
      for (int k = 0; k < N; ++k) sum[k] += weight * widen(row[k]);
    }
    Vector<T, N> y;
#pragma unroll
    for (int k = 0; k < N; ++k) y[k] = narrow<T>(sum[k]);
    store_vector<N>(a.y + token * a.y_stride + i, y);
  }
}

constexpr int kRowWarps = 4;

template <class T>
struct ExpertCombineBackwardArgs {
  Global<const int32_t> places;
  Global<const float> weights;
  Global<const T> rows, d_y;
  Global<T> d_rows;
  Global<float> d_weights;
  int64_t slots, per_token, width, d_y_stride;
};

template <class T>
__global__ void __launch_bounds__(kRowWarps* kWarp)
    expert_combine_backward_kernel(ExpertCombineBackwardArgs<T> a) {
  const int lane = threadIdx.x % kWarp;
  const int64_t slot = int64_t(blockIdx.x) * kRowWarps + threadIdx.x / kWarp;
  if (slot >= a.slots) return;  // a whole warp
  const Global<const T> d_y = a.d_y + slot / a.per_token * a.d_y_stride;
  const int64_t row = int64_t(a.places[slot]) * a.width;
  const float weight = a.weights[slot];
  float dot = 0;
  for (int64_t i = lane; i < a.width; i += kWarp) {
    const float d = widen(static_cast<T>(d_y[i]));
    dot += d * widen(static_cast<T>(a.rows[row + i]));
    a.d_rows[row + i] = narrow<T>(weight * d);
  }
  dot = reduce_warp(dot, Sum());
  if (lane == 0) a.d_weights[slot] = dot;
}

template <class T>
struct GateRowsArgs {
  Global<const T> x, gate;
  Global<T> y;
  int64_t rows, width, x_stride, gate_stride, y_stride;
};

__device__ __forceinline__ float opened(float gate) { return 1.0f / (1.0f + expf(-gate)); }

template <class T, int N>
__global__ void __launch_bounds__(256) gate_rows_kernel(GateRowsArgs<T> a) {
  each_vector<N>(a.rows, a.width, [&](int64_t row, int64_t i) {
    const float open = opened(widen(static_cast<T>(a.gate[row * a.gate_stride])));
    Vector<T, N> x = load_vector<N>(a.x + row * a.x_stride + i);
#pragma unroll
    for (int k = 0; k < N; ++k) x[k] = narrow<T>(open * widen(x[k]));
    store_vector<N>(a.y + row * a.y_stride + i, x);
  });
}

template <class T>
struct GateRowsBackwardArgs {
  Global<const T> d_y, x, gate;
  Global<T> d_x, d_gate;
  int64_t rows, width, d_y_stride, x_stride, gate_stride, d_x_stride, d_gate_stride;
};

template <class T>
__global__ void __launch_bounds__(kRowWarps* kWarp) gate_rows_backward_kernel(GateRowsBackwardArgs<T> a) {
  const int lane = threadIdx.x % kWarp;
  const int64_t row = int64_t(blockIdx.x) * kRowWarps + threadIdx.x / kWarp;
  if (row >= a.rows) return;  // a whole warp
  const float open = opened(widen(static_cast<T>(a.gate[row * a.gate_stride])));
  float dot = 0;
  for (int64_t i = lane; i < a.width; i += kWarp) {
    const float d = widen(static_cast<T>(a.d_y[row * a.d_y_stride + i]));
    dot += d * widen(static_cast<T>(a.x[row * a.x_stride + i]));
    a.d_x[row * a.d_x_stride + i] = narrow<T>(open * d);
  }
  dot = reduce_warp(dot, Sum());
  if (lane == 0) a.d_gate[row * a.d_gate_stride] = narrow<T>(open * (1.0f - open) * dot);
}

}  // namespace forge
