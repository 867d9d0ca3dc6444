#pragma once
// A block takes one row (blockIdx.y) and a stretch of columns (blockIdx.x). Sums: a block takes 32
// columns, warp w the rows w, w + 8, …, and the warps are added in order.
#include "kernels/device/reduce.cuh"

namespace forge {

// T holds the bits of an element.
template <class T>
struct CopyRowsArgs {
  Global<const T> x;
  Global<T> y;
  Global<const int64_t> from, to;
  int64_t rows, width, x_stride, y_stride;
};

template <class T, int N>
__global__ void __launch_bounds__(256) copy_rows_kernel(CopyRowsArgs<T> a) {
  each_vector<N>(a.rows, a.width, [&](int64_t row, int64_t i) {
    const int64_t from = a.from != nullptr ? static_cast<int64_t>(a.from[row]) : row;
    const int64_t to = a.to != nullptr ? static_cast<int64_t>(a.to[row]) : row;
    store_vector<N>(a.y + to * a.y_stride + i, load_vector<N>(a.x + from * a.x_stride + i));
  });
}

template <class X, class T>
struct AddRowsArgs {
  Global<const X> x;
  Global<const T> to;
  Global<T> y;
  int64_t rows, width, x_stride, to_stride, y_stride;
};

template <class X, class T, int N>
__global__ void __launch_bounds__(256) add_rows_kernel(AddRowsArgs<X, T> a) {
  each_vector<N>(a.rows, a.width, [&](int64_t row, int64_t i) {
    const Vector<X, N> x = load_vector<N>(a.x + row * a.x_stride + i);
    Vector<T, N> y = load_vector<N>(a.to + row * a.to_stride + i);
#pragma unroll
    for (int k = 0; k < N; ++k) y[k] = narrow<T>(widen(y[k]) + widen(x[k]));
    store_vector<N>(a.y + row * a.y_stride + i, y);
  });
}

template <class X, class T>
struct ScaleRowsArgs {
  Global<const X> x;
  Global<T> y;
  int64_t rows, width, x_stride, y_stride;
  float factor;
  int accumulate;
};

template <class X, class T, int N>
__global__ void __launch_bounds__(256) scale_rows_kernel(ScaleRowsArgs<X, T> a) {
  each_vector<N>(a.rows, a.width, [&](int64_t row, int64_t i) {
    const Global<T> target = a.y + row * a.y_stride + i;
    const Vector<X, N> x = load_vector<N>(a.x + row * a.x_stride + i);
    Vector<T, N> y{};
    if (a.accumulate) y = load_vector<N>(target);
#pragma unroll
    for (int k = 0; k < N; ++k) y[k] = narrow<T>(widen(x[k]) * a.factor + widen(y[k]));
    store_vector<N>(target, y);
  });
}

// T holds the bits of an element.
template <class T>
struct RegroupHeadsArgs {
  Global<const T> x;
  Global<T> y;
  int64_t rows, heads, kv_heads, head_dim, x_stride, y_stride;
  int to_groups;
};

// A thread takes a vector of a head in the grouped layout.
template <class T, int N>
__global__ void __launch_bounds__(256) regroup_heads_kernel(RegroupHeadsArgs<T> a) {
  const int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (i >= (a.heads + 2 * a.kv_heads) * a.head_dim) return;
  const int64_t shared = a.heads / a.kv_heads, head = i / a.head_dim;
  const int64_t group = head / (shared + 2), member = head % (shared + 2);
  const int64_t lies = member < shared ? group * shared + member : a.heads + (member - shared) * a.kv_heads + group;
  const int64_t apart = lies * a.head_dim + i % a.head_dim;
  const int64_t from = a.to_groups ? apart : i, to = a.to_groups ? i : apart;
  for (int64_t row = blockIdx.y; row < a.rows; row += gridDim.y)
    store_vector<N>(a.y + row * a.y_stride + to, load_vector<N>(a.x + row * a.x_stride + from));
}

constexpr int kSumWarps = 8;

template <class T>
__global__ void __launch_bounds__(kSumWarps* kWarp)
    sum_columns_kernel(Global<const T> x, int64_t rows, int64_t width, int64_t stride, Global<float> total) {
  FORGE_SHARED(float, part, kSumWarps* kWarp);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t column = int64_t(blockIdx.x) * kWarp + lane;
  float sum = 0;
  if (column < width)
    for (int64_t row = warp; row < rows; row += kSumWarps) sum += widen(static_cast<T>(x[row * stride + column]));
  part[threadIdx.x] = sum;
  __syncthreads();
  if (warp != 0 || column >= width) return;
  sum = 0;
  for (int w = 0; w < kSumWarps; ++w) sum += part[w * kWarp + lane];
  total[column] += sum;
}

template <class From, class To>
__global__ void __launch_bounds__(256) convert_kernel(Global<const From> x, Global<To> y, int64_t count) {
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    y[i] = narrow<To>(widen(static_cast<From>(x[i])));
}

}  // namespace forge
