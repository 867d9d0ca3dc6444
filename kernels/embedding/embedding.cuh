#pragma once
// A block takes one token (blockIdx.y) and a stretch of columns (blockIdx.x).
#include "kernels/device/numbers.cuh"

namespace forge {

template <class From, class T>
struct EmbeddingForwardArgs {
  Global<const From> table;
  Global<const int64_t> ids;
  Global<T> y;
  int64_t tokens, width, stride;
  float scale;
};

template <class From, class T, int N>
__global__ void __launch_bounds__(256) embedding_forward_kernel(EmbeddingForwardArgs<From, T> a) {
  each_vector<N>(a.tokens, a.width, [&](int64_t token, int64_t i) {
    const int64_t id = a.ids[token];
    Vector<From, N> row{};
    if (id >= 0) row = load_vector<N>(a.table + id * a.width + i);
    Vector<T, N> y;
#pragma unroll
    for (int k = 0; k < N; ++k) y[k] = narrow<T>(a.scale * widen(row[k]));
    store_vector<N>(a.y + token * a.stride + i, y);
  });
}

template <class T>
struct EmbeddingBackwardArgs {
  Global<const T> d_y;
  Global<const int64_t> ids, order;
  Global<float> d_table;
  int64_t tokens, width, stride, frozen;
  float scale;
};

// The first token of each id, in sorted order, adds all of them; the others leave.
template <class T, int N>
__device__ __forceinline__ void add_run(const EmbeddingBackwardArgs<T>& a, int64_t sorted, int64_t i) {
  const int64_t id = a.ids[a.order[sorted]];
  if (id < 0 || id == a.frozen || (sorted > 0 && a.ids[a.order[sorted - 1]] == id)) return;
  const Global<float> target = a.d_table + id * a.width + i;
  Vector<float, N> sum = load_vector<N>(target);
  for (; sorted < a.tokens && a.ids[a.order[sorted]] == id; ++sorted) {
    const Vector<T, N> d_y = load_vector<N>(a.d_y + a.order[sorted] * a.stride + i);
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] += a.scale * widen(d_y[k]);
  }
  store_vector<N>(target, sum);
}

template <class T, int N>
__global__ void __launch_bounds__(256) embedding_sorted_kernel(EmbeddingBackwardArgs<T> a) {
  each_vector<N>(a.tokens, a.width, [&](int64_t sorted, int64_t i) { add_run<T, N>(a, sorted, i); });
}

template <class T, int N>
__global__ void __launch_bounds__(256) embedding_atomic_kernel(EmbeddingBackwardArgs<T> a) {
  each_vector<N>(a.tokens, a.width, [&](int64_t token, int64_t i) {
    const int64_t id = a.ids[token];
    if (id < 0 || id == a.frozen) return;
    const Vector<T, N> d_y = load_vector<N>(a.d_y + token * a.stride + i);
#pragma unroll
    for (int k = 0; k < N; ++k) atomicAdd(a.d_table + id * a.width + i + k, a.scale * widen(d_y[k]));
  });
}

}  // namespace forge
