#pragma once
// One thread computes a vector of a row; blockIdx.y is the row. A vector is read before it is
// written, so the result may overwrite an input.
#include "kernels/activation/functions.cuh"

namespace forge {

template <class T, class Function>
struct ActivationForwardArgs {
  Global<const T> x;
  Global<T> y;
  int64_t rows, width, x_stride, y_stride;
  Function function;
};

template <class T, int N, class Function>
__global__ void __launch_bounds__(256) activation_forward_kernel(ActivationForwardArgs<T, Function> a) {
  each_vector<N>(a.rows, a.width, [&](int64_t row, int64_t i) {
    Vector<T, N> x = load_vector<N>(a.x + row * a.x_stride + i);
#pragma unroll
    for (int k = 0; k < N; ++k) x[k] = narrow<T>(a.function(widen(x[k])).value);
    store_vector<N>(a.y + row * a.y_stride + i, x);
  });
}

template <class T, class Function>
struct ActivationBackwardArgs {
  Global<const T> d_y, x;
  Global<T> d_x;
  int64_t rows, width, d_y_stride, x_stride, d_x_stride;
  Function function;
};

template <class T, int N, class Function>
__global__ void __launch_bounds__(256) activation_backward_kernel(ActivationBackwardArgs<T, Function> a) {
  each_vector<N>(a.rows, a.width, [&](int64_t row, int64_t i) {
    const Vector<T, N> x = load_vector<N>(a.x + row * a.x_stride + i);
    Vector<T, N> d = load_vector<N>(a.d_y + row * a.d_y_stride + i);
#pragma unroll
    for (int k = 0; k < N; ++k) d[k] = narrow<T>(widen(d[k]) * a.function(widen(x[k])).slope);
    store_vector<N>(a.d_x + row * a.d_x_stride + i, d);
  });
}

}  // namespace forge
