#pragma once
// One thread a vector of a row; blockIdx.y is the row. All three inputs of a vector are read before anything
// is written, so the outputs may lie over them.
#include "kernels/device/numbers.cuh"

namespace forge {

struct Activated {
  float value, slope;
};

struct Silu {
  __device__ __forceinline__ Activated operator()(float x) const {
    const float s = 1.0f / (1.0f + expf(-x));
    return {x * s, s * (1.0f + x * (1.0f - s))};
  }
};

// 0.5 x (1 + tanh u), u = √(2/π) (x + 0.044715 x³). As x σ(2 u): 1 + tanh cancels where x is negative.
struct GeluTanh {
  __device__ __forceinline__ Activated operator()(float x) const {
    constexpr float kRoot = 0.7978845608028654f, kCubic = 0.044715f;
    const float s = 1.0f / (1.0f + expf(-2.0f * kRoot * (x + kCubic * x * x * x)));
    const float inner = 2.0f * kRoot * (1.0f + 3.0f * kCubic * x * x);
    return {x * s, s + x * s * (1.0f - s) * inner};
  }
};

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
