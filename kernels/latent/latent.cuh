#pragma once
// A thread takes a vector of the columns that are written (blockIdx.x) of some rows (blockIdx.y).
#include "kernels/device/vector_sums.cuh"

namespace forge {

template <class T>
struct LatentHeadsArgs {
  Global<T> q, kv, key, all;
  int64_t rows, heads, head_dim, rope_dim, value_dim, q_stride, kv_stride, key_stride, all_stride;
};

// Columns of rows.
template <class T>
struct Columns {
  Global<T> first;
  int64_t stride;
};

template <class T, int N>
__global__ void __launch_bounds__(256) latent_heads_kernel(LatentHeadsArgs<T> a) {
  const int64_t width = a.heads * a.head_dim, i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (i >= 3 * width) return;
  const int64_t still = a.head_dim - a.rope_dim, part = i / width, head = i % width / a.head_dim,
                f = i % a.head_dim;
  const int64_t of_kv = head * (still + a.value_dim);
  // Places past value_dim are zeros after v.
  const bool turned = f < a.rope_dim, there = part < 2 || f < a.value_dim;
  Columns<T> from{a.kv + of_kv + (part == 1 ? f - a.rope_dim : there ? still + f : 0), a.kv_stride};
  if (part == 0) from = {a.q + head * a.head_dim + (turned ? still + f : f - a.rope_dim), a.q_stride};
  if (part == 1 && turned) from = {a.key + f, a.key_stride};
  for (int64_t row = blockIdx.y; row < a.rows; row += gridDim.y) {
    Vector<T, N> value{};
    if (there) value = load_vector<N>(from.first + row * from.stride);
    store_vector<N>(a.all + row * a.all_stride + i, value);
  }
}

// The columns are those of q, then those of kv.
template <class T, int N>
__global__ void __launch_bounds__(256) latent_heads_back_kernel(LatentHeadsArgs<T> a) {
  const int64_t still = a.head_dim - a.rope_dim, width = a.heads * a.head_dim, of_kv = still + a.value_dim;
  const int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N, in_kv = i - width;
  if (in_kv >= a.heads * of_kv) return;
  const bool of_q = in_kv < 0;
  const int64_t f = of_q ? i % a.head_dim : in_kv % of_kv,
                head = (of_q ? i / a.head_dim : in_kv / of_kv) * a.head_dim;
  const int64_t in_q = f < still ? f + a.rope_dim : f - still,
                in_k_v = f < still ? width + a.rope_dim + f : 2 * width + f - still;
  Columns<T> to{a.q + (of_q ? i : 0), a.q_stride};
  if (!of_q) to = {a.kv + in_kv, a.kv_stride};
  const int64_t column = head + (of_q ? in_q : in_k_v);
  for (int64_t row = blockIdx.y; row < a.rows; row += gridDim.y)
    store_vector<N>(to.first + row * to.stride, load_vector<N>(a.all + row * a.all_stride + column));
}

// The gradient of the key is the sum over the heads.
template <class T, int N>
__global__ void __launch_bounds__(256) latent_key_back_kernel(LatentHeadsArgs<T> a) {
  each_vector<N>(a.rows, a.rope_dim, [&](int64_t row, int64_t i) {
    const Global<T> from = a.all + row * a.all_stride + a.heads * a.head_dim + i;
    store_vector<N>(a.key + row * a.key_stride + i, sum_vectors<N>(from, a.heads, a.head_dim));
  });
}

// T holds the bits of an element.
template <class T>
struct TrimHeadsArgs {
  Global<T> x, y;
  int64_t rows, heads, head_dim, value_dim, x_stride, y_stride;
  int back;
};

template <class T, int N>
__global__ void __launch_bounds__(256) trim_heads_kernel(TrimHeadsArgs<T> a) {
  const int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N,
                of_head = a.back ? a.head_dim : a.value_dim;
  if (i >= a.heads * of_head) return;
  const int64_t head = i / of_head, f = i % of_head;
  for (int64_t row = blockIdx.y; row < a.rows; row += gridDim.y) {
    const Global<T> whole = a.x + row * a.x_stride + head * a.head_dim + f,
                    trimmed = a.y + row * a.y_stride + head * a.value_dim + f;
    if (!a.back) {
      store_vector<N>(trimmed, load_vector<N>(whole));
      continue;
    }
    Vector<T, N> value{};
    if (f < a.value_dim) value = load_vector<N>(trimmed);
    store_vector<N>(whole, value);
  }
}

}  // namespace forge
