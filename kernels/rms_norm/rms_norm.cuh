#pragma once
// One block a row (blockIdx.x) of a head (blockIdx.y). The first kHeld vectors of each thread stay
// in registers between the two passes over the row (width up to 16,384 in 16-bit types, 8,192
// beside an fp32 stream); longer rows are read again, from L2.
#include "kernels/device/column_sums.cuh"

namespace forge {

constexpr int kHeld = 4;
// At 1,024 threads the registers of the held vectors would spill on sm_100 and sm_120.
constexpr int kNormThreads = 512;

// S is the stream's type. The sum is that of the stream and, if there is one, of a branch.
template <class T, class S>
struct RmsNormForwardArgs {
  Global<const S> stream;
  Global<const T> branch, weight;
  Global<S> h;
  Global<T> y;
  Global<float> inverse;
  int64_t rows, width, stream_stride, branch_stride, h_stride, y_stride;
  float weight_offset, eps;
};

// Returns column i of the block's head in a row of all heads.
__device__ __forceinline__ int64_t column_of(int64_t width, int64_t i) { return int64_t(blockIdx.y) * width + i; }

// Returns h of N neighbours: the sum, rounded as it is stored.
template <class T, class S, int N>
__device__ __forceinline__ Vector<S, N> add_branch(const RmsNormForwardArgs<T, S>& a, int64_t row, int64_t i) {
  Vector<S, N> value = load_vector<N>(a.stream + row * a.stream_stride + column_of(a.width, i));
  if (a.branch == nullptr) return value;
  const Vector<T, N> other = load_vector<N>(a.branch + row * a.branch_stride + column_of(a.width, i));
#pragma unroll
  for (int k = 0; k < N; ++k) value[k] = narrow<S>(widen(value[k]) + widen(other[k]));
  store_vector<N>(a.h + row * a.h_stride + column_of(a.width, i), value);
  return value;
}

template <class T, int N>
__device__ __forceinline__ float sum_of_squares(const Vector<T, N>& value) {
  float sum = 0;
#pragma unroll
  for (int k = 0; k < N; ++k) sum += widen(value[k]) * widen(value[k]);
  return sum;
}

template <class T, class S, int N>
__device__ __forceinline__ void store_normalised(const RmsNormForwardArgs<T, S>& a, int64_t row, int64_t i,
                                                 const Vector<S, N>& h, float inverse) {
  const Vector<T, N> weight = load_vector<N>(a.weight + i);
  Vector<T, N> y;
#pragma unroll
  for (int k = 0; k < N; ++k) y[k] = narrow<T>(widen(h[k]) * inverse * (widen(weight[k]) + a.weight_offset));
  store_vector<N>(a.y + row * a.y_stride + column_of(a.width, i), y);
}

template <class T, class S, int N>
__global__ void __launch_bounds__(kNormThreads) rms_norm_forward_kernel(RmsNormForwardArgs<T, S> a) {
  FORGE_SHARED(float, scratch, kWarp);
  const int64_t row = blockIdx.x, step = int64_t(blockDim.x) * N, first = int64_t(threadIdx.x) * N;
  Vector<S, N> held[kHeld];
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    const int64_t i = first + j * step;
    if (i >= a.width) break;
    held[j] = add_branch<T, S, N>(a, row, i);
    sum += sum_of_squares<S, N>(held[j]);
  }
  for (int64_t i = first + kHeld * step; i < a.width; i += step)
    sum += sum_of_squares<S, N>(add_branch<T, S, N>(a, row, i));
  sum = reduce_block(sum, 0.0f, Sum(), scratch);
  const float inverse = 1.0f / __fsqrt_rn(sum / static_cast<float>(a.width) + a.eps);
  if (threadIdx.x == 0 && a.inverse != nullptr) a.inverse[column_of(a.rows, row)] = inverse;
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    const int64_t i = first + j * step;
    if (i >= a.width) break;
    store_normalised<T, S, N>(a, row, i, held[j], inverse);
  }
  // A thread reads again only what it stored itself, so h may overwrite its sources.
  const Global<const S> h =
      a.branch != nullptr ? Global<const S>(a.h + row * a.h_stride) : a.stream + row * a.stream_stride;
  for (int64_t i = first + kHeld * step; i < a.width; i += step)
    store_normalised<T, S, N>(a, row, i, load_vector<N>(h + column_of(a.width, i)), inverse);
}

template <class T, class S>
struct RmsNormBackwardArgs {
  Global<const T> d_y;
  Global<const S> h;
  Global<const T> weight;
  Global<S> d_h;
  Global<T> y;
  Global<const float> inverse;
  int64_t rows, width, d_y_stride, h_stride, d_h_stride, y_stride;
  float weight_offset;
  int accumulate;
};

// Returns Σ g h of N neighbours, g = d y (weight + offset).
template <class T, class S, int N>
__device__ __forceinline__ float weighted_dot(const RmsNormBackwardArgs<T, S>& a, int64_t i,
                                              const Vector<T, N>& d_y, const Vector<S, N>& h) {
  const Vector<T, N> weight = load_vector<N>(a.weight + i);
  float sum = 0;
#pragma unroll
  for (int k = 0; k < N; ++k) sum += widen(d_y[k]) * (widen(weight[k]) + a.weight_offset) * widen(h[k]);
  return sum;
}

// `mean` is mean(g h r).
template <class T, class S, int N>
__device__ __forceinline__ void store_gradient(const RmsNormBackwardArgs<T, S>& a, int64_t row, int64_t i,
                                               const Vector<T, N>& d_y, const Vector<S, N>& h, float inverse,
                                               float mean) {
  const Vector<T, N> weight = load_vector<N>(a.weight + i);
  const Global<S> target = a.d_h + row * a.d_h_stride + column_of(a.width, i);
  Vector<S, N> d_h{};
  if (a.accumulate) d_h = load_vector<N>(target);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float g = widen(d_y[k]) * (widen(weight[k]) + a.weight_offset);
    const float d = (g - widen(h[k]) * inverse * mean) * inverse;
    d_h[k] = narrow<S>(a.accumulate ? d + widen(d_h[k]) : d);
  }
  store_vector<N>(target, d_h);
  if (a.y == nullptr) return;
  Vector<T, N> y;
#pragma unroll
  for (int k = 0; k < N; ++k) y[k] = narrow<T>(widen(h[k]) * inverse * (widen(weight[k]) + a.weight_offset));
  store_vector<N>(a.y + row * a.y_stride + column_of(a.width, i), y);
}

template <class T, class S, int N>
__global__ void __launch_bounds__(kNormThreads) rms_norm_backward_kernel(RmsNormBackwardArgs<T, S> a) {
  FORGE_SHARED(float, scratch, kWarp);
  const int64_t row = blockIdx.x, step = int64_t(blockDim.x) * N, first = int64_t(threadIdx.x) * N;
  const Global<const T> d_y_row = a.d_y + row * a.d_y_stride + column_of(a.width, 0);
  const Global<const S> h_row = a.h + row * a.h_stride + column_of(a.width, 0);
  Vector<T, N> d_y[kHeld];
  Vector<S, N> h[kHeld];
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    const int64_t i = first + j * step;
    if (i >= a.width) break;
    d_y[j] = load_vector<N>(d_y_row + i);
    h[j] = load_vector<N>(h_row + i);
    sum += weighted_dot<T, S, N>(a, i, d_y[j], h[j]);
  }
  for (int64_t i = first + kHeld * step; i < a.width; i += step)
    sum += weighted_dot<T, S, N>(a, i, load_vector<N>(d_y_row + i), load_vector<N>(h_row + i));
  const float inverse = a.inverse[column_of(a.rows, row)];
  const float mean = reduce_block(sum, 0.0f, Sum(), scratch) * inverse / static_cast<float>(a.width);
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    const int64_t i = first + j * step;
    if (i >= a.width) break;
    store_gradient<T, S, N>(a, row, i, d_y[j], h[j], inverse, mean);
  }
  for (int64_t i = first + kHeld * step; i < a.width; i += step)
    store_gradient<T, S, N>(a, row, i, load_vector<N>(d_y_row + i), load_vector<N>(h_row + i), inverse, mean);
}

// Computes the parts of d weight: every head of every row is a row of the sums.
template <class T, class S>
__global__ void __launch_bounds__(kColumnWarps* kWarp)
    rms_norm_weight_kernel(RmsNormBackwardArgs<T, S> a, int64_t heads, Global<float> partial) {
  FORGE_SHARED(float, part, kColumnWarps* kWarp);
  column_partials<1>(heads * a.rows, a.width, partial, part, [&](int64_t i, int64_t column, float* sums) {
    const int64_t row = i / heads, head = i % heads, at = head * a.width + column;
    sums[0] += widen(static_cast<T>(a.d_y[row * a.d_y_stride + at])) *
               (widen(static_cast<S>(a.h[row * a.h_stride + at])) * a.inverse[head * a.rows + row]);
  });
}

}  // namespace forge
