#pragma once
// A thread takes four features, which one Philox block serves.
#include "kernels/device/numbers.cuh"
#include "kernels/device/philox.cuh"

namespace forge {

template <class T>
struct DropoutArgs {
  Global<const T> x;
  Global<T> y;
  Global<const int64_t> example;
  Global<const int32_t> position;
  int64_t rows, features, x_stride, y_stride;
  uint64_t seed, module;
  Global<const int64_t> step;
  uint32_t threshold;  // words below it are dropped
  float keep;
  int add;
};

template <class T, int N>
__global__ void __launch_bounds__(256) dropout_kernel(DropoutArgs<T> a) {
  const int64_t group = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, first = 4 * group;
  if (first >= a.features) return;
  const float keep = rounded<T>(a.keep);
  const uint64_t stream = a.module ^ static_cast<uint64_t>(static_cast<int64_t>(a.step[0])) * 0x9E3779B97F4A7C15ull;
  for (int64_t row = blockIdx.y; row < a.rows; row += gridDim.y) {
    const uint64_t key = a.seed ^ static_cast<uint64_t>(static_cast<int64_t>(a.example[row])) << 20;
    const uint64_t position =
        static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(a.position[row])));
    const PhiloxWords random = philox_words(key, stream, position << 32 | static_cast<uint64_t>(group));
    const Global<const T> x = a.x + row * a.x_stride + first;
    const Global<T> y = a.y + row * a.y_stride + first;
#pragma unroll
    for (int part = 0; part < 4; part += N) {
      if (first + part >= a.features) break;
      Vector<T, N> v = load_vector<N>(x + part);
      Vector<T, N> sum{};
      if (a.add) sum = load_vector<N>(y + part);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float kept = widen(v[k]) * (random.words[part + k] < a.threshold ? 0.0f : keep);
        v[k] = narrow<T>(a.add ? widen(sum[k]) + kept : kept);
      }
      store_vector<N>(y + part, v);
    }
  }
}

}  // namespace forge
