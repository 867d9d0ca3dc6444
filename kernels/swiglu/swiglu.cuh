#pragma once
// One thread a vector of a row; blockIdx.y is the row. All three inputs of a vector are read before anything
// is written, so the outputs may lie over them.
#include "kernels/activation/functions.cuh"

namespace forge {

template <class T>
struct SwigluForwardArgs {
  Global<const T> gate, up;
  Global<T> y;
  int64_t rows, width, gate_stride, up_stride, y_stride;
};

template <class T, int N, class Function>
__global__ void __launch_bounds__(256) swiglu_forward_kernel(SwigluForwardArgs<T> a) {
  const int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (i >= a.width) return;
  for (int64_t row = blockIdx.y; row < a.rows; row += gridDim.y) {
    const Vector<T, N> gate = load_vector<N>(a.gate + row * a.gate_stride + i);
    const Vector<T, N> up = load_vector<N>(a.up + row * a.up_stride + i);
    Vector<T, N> y;
#pragma unroll
    for (int k = 0; k < N; ++k) y[k] = narrow<T>(Function()(widen(gate[k])).value * widen(up[k]));
    store_vector<N>(a.y + row * a.y_stride + i, y);
  }
}

template <class T>
struct SwigluBackwardArgs {
  Global<const T> d_y;
  Global<T> gate, up, y;
  int64_t rows, width, d_y_stride, gate_stride, up_stride, y_stride;
};

template <class T, int N, class Function>
__global__ void __launch_bounds__(256) swiglu_backward_kernel(SwigluBackwardArgs<T> a) {
  const int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (i >= a.width) return;
  for (int64_t row = blockIdx.y; row < a.rows; row += gridDim.y) {
    Vector<T, N> gate = load_vector<N>(a.gate + row * a.gate_stride + i);
    Vector<T, N> up = load_vector<N>(a.up + row * a.up_stride + i);
    Vector<T, N> y = load_vector<N>(a.d_y + row * a.d_y_stride + i);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const Activated f = Function()(widen(gate[k]));
      const float d = widen(y[k]), u = widen(up[k]);
      gate[k] = narrow<T>(d * u * f.slope);
      up[k] = narrow<T>(d * f.value);
      y[k] = narrow<T>(f.value * u);
    }
    store_vector<N>(a.gate + row * a.gate_stride + i, gate);
    store_vector<N>(a.up + row * a.up_stride + i, up);
    if (a.y != nullptr) store_vector<N>(a.y + row * a.y_stride + i, y);
  }
}

}  // namespace forge
