#pragma once
// One block a row. The first kLayerNormHeld vectors of each thread stay in registers between the
// passes over the row (width up to 16,384 in 16-bit types, 8,192 of an fp32 stream); longer rows
// are read again, from L2. The variance is that of x − μ: squares less the mean's square would
// cancel where the mean is large.
#include "kernels/device/column_sums.cuh"

namespace forge {

constexpr int kLayerNormHeld = 4, kLayerNormThreads = 512;

// S: the type of x.
template <class T, class S>
struct LayerNormForwardArgs {
  Global<const S> x;
  Global<const T> weight, bias;
  Global<T> y;
  Global<float> statistics;
  int64_t rows, width, x_stride, y_stride;
  float weight_offset, eps;  // weight_offset: 1 where there is no weight
};

// Returns N neighbours of a weight or a bias, zeros of none.
template <int N, class T>
__device__ __forceinline__ Vector<T, N> load_or_zero(Global<const T> numbers, int i) {
  Vector<T, N> own{};
  if (numbers != nullptr) own = load_vector<N>(numbers + i);
  return own;
}

// Calls visit(i, held vector) for the vectors that a thread holds, then visit(i, vector read again)
// for the rest of its part of the row.
template <int N, class T, class Held, class Visit>
__device__ __forceinline__ void visit_row(Global<const T> row, int width, Held& held, Visit visit) {
  const int step = int(blockDim.x) * N, first = int(threadIdx.x) * N;
#pragma unroll
  for (int j = 0; j < kLayerNormHeld; ++j) {
    const int i = first + j * step;
    if (i >= width) break;
    visit(i, held[j]);
  }
#pragma unroll 1  // few rows are that long, so their code is kept small
  for (int i = first + kLayerNormHeld * step; i < width; i += step) {
    const Vector<T, N> value = load_vector<N>(row + i);
    visit(i, value);
  }
}

template <int N, class T>
__device__ __forceinline__ void hold_row(Global<const T> row, int width, Vector<T, N>* held) {
  const int step = int(blockDim.x) * N, first = int(threadIdx.x) * N;
#pragma unroll
  for (int j = 0; j < kLayerNormHeld; ++j) {
    const int i = first + j * step;
    if (i >= width) break;
    held[j] = load_vector<N>(row + i);
  }
}

template <class T, class S, int N>
__global__ void __launch_bounds__(kLayerNormThreads, 1) layer_norm_forward_kernel(LayerNormForwardArgs<T, S> a) {
  FORGE_SHARED(float, scratch, kWarp);
  const int64_t row = blockIdx.x;
  const Global<const S> x = a.x + row * a.x_stride;
  const Global<T> y = a.y + row * a.y_stride;
  const auto width = static_cast<float>(a.width);
  Vector<S, N> held[kLayerNormHeld];
  hold_row<N>(x, int(a.width), held);
  float sum = 0, squares = 0;
  visit_row<N>(x, int(a.width), held, [&](int, const Vector<S, N>& value) {
#pragma unroll
    for (int k = 0; k < N; ++k) sum += widen(value[k]);
  });
  const float mean = reduce_block(sum, 0.0f, Sum(), scratch) / width;
  visit_row<N>(x, int(a.width), held, [&](int, const Vector<S, N>& value) {
#pragma unroll
    for (int k = 0; k < N; ++k) squares += (widen(value[k]) - mean) * (widen(value[k]) - mean);
  });
  const float inverse = 1.0f / __fsqrt_rn(reduce_block(squares, 0.0f, Sum(), scratch) / width + a.eps);
  if (threadIdx.x == 0 && a.statistics != nullptr) {
    a.statistics[2 * row] = mean;
    a.statistics[2 * row + 1] = inverse;
  }
  // A thread reads again only vectors that it has not stored yet, so y may overwrite x.
  visit_row<N>(x, int(a.width), held, [&](int i, const Vector<S, N>& value) {
    const Vector<T, N> weight = load_or_zero<N>(a.weight, i), bias = load_or_zero<N>(a.bias, i);
    Vector<T, N> out;
#pragma unroll
    for (int k = 0; k < N; ++k)
      out[k] = narrow<T>((widen(value[k]) - mean) * inverse * (widen(weight[k]) + a.weight_offset) + widen(bias[k]));
    store_vector<N>(y + i, out);
  });
}

template <class T, class S>
struct LayerNormBackwardArgs {
  Global<const T> d_y;
  Global<const S> x;
  Global<const T> weight;
  Global<const float> statistics;
  Global<S> d_x;
  int64_t rows, width, d_y_stride, x_stride, d_x_stride;
  int accumulate;
  float weight_offset;  // 1 where there is no weight
};

template <class T, class S, int N>
__global__ void __launch_bounds__(kLayerNormThreads, 1) layer_norm_backward_kernel(LayerNormBackwardArgs<T, S> a) {
  FORGE_SHARED(float, scratch, kWarp);
  const int64_t row = blockIdx.x;
  const Global<const S> x = a.x + row * a.x_stride;
  const Global<const T> d_y = a.d_y + row * a.d_y_stride;
  const Global<S> d_x = a.d_x + row * a.d_x_stride;
  const float mean = a.statistics[2 * row], inverse = a.statistics[2 * row + 1];
  Vector<S, N> held[kLayerNormHeld];
  hold_row<N>(x, int(a.width), held);
  float sum = 0, product = 0;
  visit_row<N>(x, int(a.width), held, [&](int i, const Vector<S, N>& value) {
    const Vector<T, N> d = load_vector<N>(d_y + i);
    const Vector<T, N> weight = load_or_zero<N>(a.weight, i);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float g = widen(d[k]) * (widen(weight[k]) + a.weight_offset);
      sum += g;
      product += g * ((widen(value[k]) - mean) * inverse);
    }
  });
  const auto width = static_cast<float>(a.width);
  const float mean_g = reduce_block(sum, 0.0f, Sum(), scratch) / width;
  const float mean_gn = reduce_block(product, 0.0f, Sum(), scratch) / width;
  visit_row<N>(x, int(a.width), held, [&](int i, const Vector<S, N>& value) {
    const Vector<T, N> d = load_vector<N>(d_y + i);
    const Vector<T, N> weight = load_or_zero<N>(a.weight, i);
    Vector<S, N> out{};
    if (a.accumulate) out = load_vector<N>(d_x + i);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float normed = (widen(value[k]) - mean) * inverse;
      const float gradient = (widen(d[k]) * (widen(weight[k]) + a.weight_offset) - mean_g - normed * mean_gn) * inverse;
      out[k] = narrow<S>(a.accumulate ? gradient + widen(out[k]) : gradient);
    }
    store_vector<N>(d_x + i, out);
  });
}

// The parts of d weight and d bias.
template <class T, class S>
__global__ void __launch_bounds__(kColumnWarps* kWarp)
    layer_norm_weight_kernel(LayerNormBackwardArgs<T, S> a, Global<float> partial) {
  FORGE_SHARED(float, part, 2 * kColumnWarps * kWarp);
  column_partials<2>(a.rows, a.width, partial, part, [&](int64_t row, int64_t column, float* sums) {
    const float d = widen(static_cast<T>(a.d_y[row * a.d_y_stride + column]));
    const float apart = widen(static_cast<S>(a.x[row * a.x_stride + column])) - a.statistics[2 * row];
    sums[0] += d * (apart * a.statistics[2 * row + 1]);
    sums[1] += d;
  });
}

}  // namespace forge
