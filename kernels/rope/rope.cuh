#pragma once
// One block a token; its threads share out the pairs of all heads of q and k. A thread reads both
// sides of its pairs before it writes them.
#include "kernels/device/numbers.cuh"

namespace forge {

template <class T>
struct RopeArgs {
  Global<T> qkv;
  Global<const float> cosine, sine;
  Global<const int32_t> positions;
  int64_t stride;
  int heads, head_dim, rotary_dim;  // of q and k together
  float direction;                  // −1 in the backward
};

// Loads N neighbours of a table, 16 bytes at a time.
template <int N>
__device__ __forceinline__ Vector<float, N> load_table(Global<const float> p) {
  constexpr int kPart = N < 4 ? N : 4;
  Vector<float, N> values;
#pragma unroll
  for (int first = 0; first < N; first += kPart) {
    const Vector<float, kPart> part = load_vector<kPart>(p + first);
#pragma unroll
    for (int k = 0; k < kPart; ++k) values[first + k] = part[k];
  }
  return values;
}

// Rotates N pairs from pair `i` of one head, in the half layout.
template <class T, int N>
__device__ __forceinline__ void rotate_half(Global<T> x, Global<const float> cos, Global<const float> sin,
                                            int i, int half, float direction) {
  Vector<T, N> first = load_vector<N>(x + i), second = load_vector<N>(x + half + i);
  const Vector<float, N> cosines = load_table<N>(cos + i), sines = load_table<N>(sin + i);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float c = cosines[k], s = direction * sines[k], a = widen(first[k]), b = widen(second[k]);
    first[k] = narrow<T>(a * c - b * s);
    second[k] = narrow<T>(b * c + a * s);
  }
  store_vector<N>(x + i, first);
  store_vector<N>(x + half + i, second);
}

// Rotates interleaved pairs: N neighbours on each side, 2 N features together.
template <class T, int N>
__device__ __forceinline__ void rotate_interleaved(Global<T> x, Global<const float> cos,
                                                   Global<const float> sin, int i, float direction) {
  Vector<T, N> values[2] = {load_vector<N>(x + 2 * i), load_vector<N>(x + 2 * i + N)};
  const Vector<float, N> cosines = load_table<N>(cos + i), sines = load_table<N>(sin + i);
  T flat[2 * N];
#pragma unroll
  for (int k = 0; k < 2 * N; ++k) flat[k] = values[k / N][k % N];
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float c = cosines[k], s = direction * sines[k];
    const float a = widen(flat[2 * k]), b = widen(flat[2 * k + 1]);
    flat[2 * k] = narrow<T>(a * c - b * s);
    flat[2 * k + 1] = narrow<T>(b * c + a * s);
  }
#pragma unroll
  for (int k = 0; k < 2 * N; ++k) values[k / N][k % N] = flat[k];
  store_vector<N>(x + 2 * i, values[0]);
  store_vector<N>(x + 2 * i + N, values[1]);
}

template <class T, int N, bool kInterleaved>
__global__ void __launch_bounds__(256) rope_kernel(RopeArgs<T> a) {
  const int64_t token = blockIdx.x;
  const int64_t position = a.positions != nullptr ? static_cast<int64_t>(a.positions[token]) : token;
  const int half = a.rotary_dim / 2, vectors = half / N;
  const Global<const float> cosine = a.cosine + position * half, sine = a.sine + position * half;
  for (int item = static_cast<int>(threadIdx.x); item < a.heads * vectors;
       item += static_cast<int>(blockDim.x)) {
    const int i = item % vectors * N;
    const Global<T> head = a.qkv + token * a.stride + item / vectors * a.head_dim;
    if (kInterleaved)
      rotate_interleaved<T, N>(head, cosine, sine, i, a.direction);
    else
      rotate_half<T, N>(head, cosine, sine, i, half, a.direction);
  }
}

}  // namespace forge
