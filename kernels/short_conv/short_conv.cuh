#pragma once
// A thread walks through a stretch of tokens (blockIdx.y) with the last rows of one channel in
// registers; the channels of a warp are consecutive. The backward walks on past a stretch, as far
// as its tokens reach, and leaves sums for the weights, which are added stretch by stretch.
#include "kernels/device/reduce.cuh"

namespace forge {

constexpr int kConvThreads = 128;
constexpr int kConvTaps = 8;  // the most

// The last values of a channel, the newest last.
struct ConvWindow {
  float at[kConvTaps] = {};

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int j = 0; j < kConvTaps; ++j) at[j] = 0;
  }
  __device__ __forceinline__ void push(float value) {
#pragma unroll
    for (int j = 0; j + 1 < kConvTaps; ++j) at[j] = at[j + 1];
    at[kConvTaps - 1] = value;
  }
};

template <class T>
struct ConvArgs {
  Global<const T> x, weight, bias;
  Global<const int32_t> cu_seqlens;
  int64_t x_stride;
  int sequences, tokens, channels, width;
  bool silu;
};

// The stretch of a block, and the text that a thread is in.
struct ConvPlace {
  int channel, begin, end, text, text_begin, text_end;

  // Moves to the text of token `token`, which is past the one at hand.
  template <class T>
  __device__ __forceinline__ void enter(const ConvArgs<T>& a, int token) {
    while (text_end <= token) text_begin = text_end, text_end = a.cu_seqlens[++text + 1];
  }
};

template <class T>
__device__ __forceinline__ ConvPlace place_of(const ConvArgs<T>& a) {
  const int parts = gridDim.y, each = (a.tokens - 1) / parts + 1;
  const int64_t first = int64_t(blockIdx.y) * each;
  const int begin = first < a.tokens ? first : a.tokens;
  ConvPlace p{int(blockIdx.x) * kConvThreads + int(threadIdx.x), begin, each < a.tokens - begin ? begin + each : a.tokens, 0, 0, 0};
  // The last text that begins at or before the first token.
  for (int after = a.sequences; p.text + 1 < after;) {
    const int middle = (p.text + after) / 2;
    if (a.cu_seqlens[middle] <= begin)
      p.text = middle;
    else
      after = middle;
  }
  p.text_begin = a.cu_seqlens[p.text], p.text_end = a.cu_seqlens[p.text + 1];
  return p;
}

// The weights of a channel at the end of the window's places.
struct ConvFilter {
  float weight[kConvTaps];
  float bias;
  int first;  // place of the first weight

  template <class T>
  __device__ __forceinline__ ConvFilter(const ConvArgs<T>& a, int channel) : first(kConvTaps - a.width) {
#pragma unroll
    for (int j = 0; j < kConvTaps; ++j)
      weight[j] = j >= first ? widen(static_cast<T>(a.weight[int64_t(channel) * a.width + j - first])) : 0.0f;
    bias = a.bias != nullptr ? widen(static_cast<T>(a.bias[channel])) : 0.0f;
  }
  __device__ __forceinline__ float sum(const ConvWindow& rows) const {
    float sum = bias;
#pragma unroll
    for (int j = 0; j < kConvTaps; ++j)
      if (j >= first) sum = fmaf(weight[j], rows.at[j], sum);
    return sum;
  }
};

__device__ __forceinline__ float open_share(float sum) { return 1.0f / (1.0f + expf(-sum)); }

// Fills the window with the rows of the text before `token`.
template <class T>
__device__ __forceinline__ void recall(const ConvArgs<T>& a, const ConvPlace& p, int token, ConvWindow& rows) {
  rows.clear();
  const int earliest = token - (a.width - 1);
  for (int t = earliest > p.text_begin ? earliest : p.text_begin; t < token; ++t)
    rows.push(widen(static_cast<T>(a.x[int64_t(t) * a.x_stride + p.channel])));
}

template <class T>
__global__ void __launch_bounds__(kConvThreads)
    short_conv_forward_kernel(ConvArgs<T> a, Global<T> y, int64_t y_stride) {
  ConvPlace p = place_of(a);
  if (p.channel >= a.channels) return;
  const ConvFilter filter(a, p.channel);
  ConvWindow rows;
  for (int t = p.begin; t < p.end; ++t) {
    if (t == p.begin || t == p.text_end) {
      p.enter(a, t);
      recall(a, p, t, rows);
    }
    rows.push(widen(static_cast<T>(a.x[int64_t(t) * a.x_stride + p.channel])));
    const float sum = filter.sum(rows);
    y[int64_t(t) * y_stride + p.channel] = narrow<T>(a.silu ? sum * open_share(sum) : sum);
  }
}

template <class T>
struct ConvBackwardArgs {
  Global<const T> d_y;
  Global<T> d_x;
  Global<float> partial;  // [stretches, width + 1, channels], or null
  int64_t d_y_stride, d_x_stride;
};

template <class T>
__global__ void __launch_bounds__(kConvThreads)
    short_conv_backward_kernel(ConvArgs<T> a, ConvBackwardArgs<T> b) {
  ConvPlace p = place_of(a);
  if (p.channel >= a.channels) return;
  const ConvFilter filter(a, p.channel);
  ConvWindow rows, slopes;
  float of_weight[kConvTaps] = {}, of_bias = 0;
  for (int t = p.begin; t < p.end;) {
    p.enter(a, t);
    recall(a, p, t, rows);
    slopes.clear();
    const int stop = p.text_end < p.end ? p.text_end : p.end, last = stop + a.width - 1;
    // The slopes are those of a row and the ones after it, so that the taps' places are constants.
    constexpr int kReach = kConvTaps - 1;
    for (int u = t; u < stop + kReach; ++u) {
      float d = 0;
      if (u < p.text_end && u < last) {
        rows.push(widen(static_cast<T>(a.x[int64_t(u) * a.x_stride + p.channel])));
        d = widen(static_cast<T>(b.d_y[int64_t(u) * b.d_y_stride + p.channel]));
        if (a.silu) {
          const float sum = filter.sum(rows), open = open_share(sum);
          d *= fmaf(sum * open, 1.0f - open, open);
        }
        if (u < stop) {
          of_bias += d;
#pragma unroll
          for (int j = 0; j < kConvTaps; ++j) of_weight[j] = fmaf(d, rows.at[j], of_weight[j]);
        }
      }
      slopes.push(d);
      if (u - kReach < t) continue;
      float d_x = 0;
#pragma unroll
      for (int j = 0; j < kConvTaps; ++j)
        if (j >= filter.first) d_x = fmaf(filter.weight[j], slopes.at[kReach - j], d_x);
      b.d_x[int64_t(u - kReach) * b.d_x_stride + p.channel] = narrow<T>(d_x);
    }
    t = stop;
  }
  if (b.partial == nullptr) return;
  const Global<float> partial = b.partial + int64_t(blockIdx.y) * (a.width + 1) * a.channels + p.channel;
#pragma unroll
  for (int j = 0; j < kConvTaps; ++j)
    if (j >= filter.first) partial[int64_t(j - filter.first) * a.channels] = of_weight[j];
  partial[int64_t(a.width) * a.channels] = of_bias;
}

// Adds the stretches' sums to the gradients, either of which may be null. blockIdx.y is the tap;
// the last is the bias.
__global__ void __launch_bounds__(kConvThreads)
    short_conv_totals_kernel(Global<const float> partial, int64_t stretches, int64_t channels, int64_t width,
                             Global<float> d_weight, Global<float> d_bias) {
  const int64_t channel = int64_t(blockIdx.x) * kConvThreads + threadIdx.x, tap = blockIdx.y;
  const Global<float> total = tap < width ? d_weight : d_bias;
  if (channel >= channels || total == nullptr) return;
  float sum = 0;
  for (int64_t stretch = 0; stretch < stretches; ++stretch) sum += partial[(stretch * (width + 1) + tap) * channels + channel];
  total[tap < width ? channel * width + tap : channel] += sum;
}

}  // namespace forge
