#pragma once
// One thread computes a vector of a row; blockIdx.y is the row. All three inputs of a vector are
// read before anything is written, so the outputs may overwrite them.
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
  each_vector<N>(a.rows, a.width, [&](int64_t row, int64_t i) {
    const Vector<T, N> gate = load_vector<N>(a.gate + row * a.gate_stride + i);
    const Vector<T, N> up = load_vector<N>(a.up + row * a.up_stride + i);
    Vector<T, N> y;
#pragma unroll
    for (int k = 0; k < N; ++k) y[k] = narrow<T>(Function()(widen(gate[k])).value * widen(up[k]));
    store_vector<N>(a.y + row * a.y_stride + i, y);
  });
}

template <class T>
struct SwigluBackwardArgs {
  Global<const T> d_y;
  Global<T> gate, up, y, d_gate, d_up;
  int64_t rows, width, d_y_stride, gate_stride, up_stride, y_stride, d_gate_stride, d_up_stride;
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
    store_vector<N>(a.d_gate + row * a.d_gate_stride + i, gate);
    store_vector<N>(a.d_up + row * a.d_up_stride + i, up);
    if (a.y != nullptr) store_vector<N>(a.y + row * a.y_stride + i, y);
  }
}

// The gate of gpt-oss's pairs: a thread takes N of them.
struct ClampedGate {
  float limit, alpha;
};
struct ClampedPair {
  float gated, more, slope_of_gate, slope_of_up;
};
__device__ __forceinline__ ClampedPair clamped_pair(const ClampedGate& c, float gate, float up) {
  const float g = gate > c.limit ? c.limit : gate, u = up > c.limit ? c.limit : up < -c.limit ? -c.limit : up;
  const float open = 1.0f / (1.0f + expf(-c.alpha * g));
  const float slope = open * (1.0f + c.alpha * g * (1.0f - open));
  return {g * open, u + 1.0f, gate > c.limit ? 0.0f : slope, fabsf(up) > c.limit ? 0.0f : 1.0f};
}

// Loads N pairs. A single pair may begin at an odd element.
template <int N, class T>
__device__ __forceinline__ Vector<typename NotConst<T>::Type, 2 * N> load_pairs(Global<T> p) {
  if constexpr (N > 1) return load_vector<2 * N>(p);
  Vector<typename NotConst<T>::Type, 2 * N> pair;
  pair[0] = p[0], pair[1] = p[1];
  return pair;
}
template <int N, class T>
__device__ __forceinline__ void store_pairs(Global<T> p, const Vector<T, 2 * N>& pairs) {
  if constexpr (N > 1) {
    store_vector<2 * N>(p, pairs);
  } else {
    p[0] = pairs[0], p[1] = pairs[1];
  }
}

template <class T>
struct ClampedGluForwardArgs {
  Global<const T> pairs;
  Global<T> y;
  int64_t rows, width, pairs_stride, y_stride;
  ClampedGate gate;
};

template <class T, int N>
__global__ void __launch_bounds__(256) clamped_glu_forward_kernel(ClampedGluForwardArgs<T> a) {
  each_vector<N>(a.rows, a.width, [&](int64_t row, int64_t i) {
    const Vector<T, 2 * N> pairs = load_pairs<N>(a.pairs + row * a.pairs_stride + 2 * i);
    Vector<T, N> y;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const ClampedPair f = clamped_pair(a.gate, widen(pairs[2 * k]), widen(pairs[2 * k + 1]));
      y[k] = narrow<T>(f.more * f.gated);
    }
    store_vector<N>(a.y + row * a.y_stride + i, y);
  });
}

template <class T>
struct ClampedGluBackwardArgs {
  Global<const T> d_y;
  Global<T> pairs, y;
  int64_t rows, width, d_y_stride, pairs_stride, y_stride;
  ClampedGate gate;
};

template <class T, int N>
__global__ void __launch_bounds__(256) clamped_glu_backward_kernel(ClampedGluBackwardArgs<T> a) {
  each_vector<N>(a.rows, a.width, [&](int64_t row, int64_t i) {
    const Global<T> place = a.pairs + row * a.pairs_stride + 2 * i;
    Vector<T, 2 * N> pairs = load_pairs<N>(place);
    Vector<T, N> y = load_vector<N>(a.d_y + row * a.d_y_stride + i);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const ClampedPair f = clamped_pair(a.gate, widen(pairs[2 * k]), widen(pairs[2 * k + 1]));
      const float d = widen(y[k]);
      pairs[2 * k] = narrow<T>(d * f.more * f.slope_of_gate);
      pairs[2 * k + 1] = narrow<T>(d * f.gated * f.slope_of_up);
      y[k] = narrow<T>(f.more * f.gated);
    }
    store_pairs<N>(place, pairs);
    if (a.y != nullptr) store_vector<N>(a.y + row * a.y_stride + i, y);
  });
}

}  // namespace forge
