#pragma once
// Sums over heads.
#include "kernels/device/numbers.cuh"

namespace forge {

// Σ of `count` vectors, `stride` elements apart, in fp32 and rounded once.
template <int N, class T>
__device__ __forceinline__ Vector<typename NotConst<T>::Type, N> sum_vectors(Global<T> first, int64_t count, int64_t stride) {
  float sum[N] = {};
  for (int64_t i = 0; i < count; ++i) {
    const auto part = load_vector<N>(first + i * stride);
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] += widen(part[k]);
  }
  Vector<typename NotConst<T>::Type, N> rounded;
#pragma unroll
  for (int k = 0; k < N; ++k) rounded[k] = narrow<typename NotConst<T>::Type>(sum[k]);
  return rounded;
}

}  // namespace forge
