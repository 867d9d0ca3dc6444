#pragma once
// A thread takes a vector of one key head of one token, of keys or of values; a block a stretch of
// columns (blockIdx.x) of some tokens.
#include "kernels/device/vector_sums.cuh"

namespace forge {

template <class T>
struct GroupSumsArgs {
  Global<const T> x[2];
  Global<T> y[2];
  int64_t y_stride[2];
  int64_t tokens, kv_heads, group, head_dim;
};

template <class T, int N>
__global__ void __launch_bounds__(256) group_sums_kernel(GroupSumsArgs<T> a) {
  const int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N, width = a.kv_heads * a.head_dim;
  if (i >= 2 * width) return;
  const int of = i >= width;
  const int64_t column = of ? i - width : i;
  const int64_t first = (column / a.head_dim) * a.group * a.head_dim + column % a.head_dim;
  for (int64_t token = blockIdx.y; token < a.tokens; token += gridDim.y) {
    const Global<const T> x = a.x[of] + token * width * a.group + first;
    store_vector<N>(a.y[of] + token * a.y_stride[of] + column, sum_vectors<N>(x, a.group, a.head_dim));
  }
}

}  // namespace forge
