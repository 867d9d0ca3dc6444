#pragma once
// A short causal convolution of each channel by itself, as linear attention has it before its
// rule, on plain memory.
//
//   s_t   = bias + Σ_j w_j x_{t − width + 1 + j},  j = 0 … width − 1
//   y_t   = silu(s_t), or s_t
//   d s   = d y silu'(s), or d y
//   d x_t = Σ_j w_j d s_{t + width − 1 − j}
//   d w_j += Σ_t d s_t x_{t − width + 1 + j},  d bias += Σ_t d s_t
//
// within each text of a packed micro-batch: before a text's first token x is zero, and no d s comes
// from after its last one. Arithmetic is in fp32, results are rounded once. Strides are elements
// from row to row. Bytes: forward 2 passes of tokens · channels elements, backward 3.
//
// In decoding a text goes on from its state, the last width − 1 rows of x.
#include <cstdint>
#include <string>

#include "kernels/common/element.h"
#include "kernels/cpu/level.h"
#include "kernels/device/column_sums.h"
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"

namespace forge {

constexpr int64_t kMostTaps = 8;

struct ShortConvShape {
  Element type = Element::f32;
  int64_t sequences = 0;
  const int32_t* cu_seqlens = nullptr;  // [sequences + 1]
  int64_t channels = 0, width = 0;      // width ≤ kMostTaps
  bool silu = false;
  int64_t tokens = 0;  // for a GPU, whose memory holds cu_seqlens
};

struct ShortConvForward {
  ShortConvShape shape;
  const void* x = nullptr;  // [tokens, channels]
  int64_t x_stride = 0;
  const void* weight = nullptr;  // [channels, width]
  const void* bias = nullptr;    // [channels], or null
  void* y = nullptr;             // may not meet x
  int64_t y_stride = 0;
  // Columns of each sequence, [width − 1, channels] of the type: read unless it begins, and
  // written; null in training.
  char* const* states = nullptr;
  bool begins = true;
};

struct ShortConvBackward {
  ShortConvShape shape;
  const void* d_y = nullptr;
  int64_t d_y_stride = 0;
  const void* x = nullptr;
  int64_t x_stride = 0;
  const void* weight = nullptr;
  const void* bias = nullptr;
  void* d_x = nullptr;  // may be x
  int64_t d_x_stride = 0;
  float* d_weight = nullptr;  // [channels, width], added to; or null
  float* d_bias = nullptr;    // [channels], added to; or null
  void* workspace = nullptr;  // on a GPU
};

void short_conv_forward_cpu(const ShortConvForward& args, CpuLevel level = cpu_level());
void short_conv_backward_cpu(const ShortConvBackward& args, CpuLevel level = cpu_level());

// On a GPU, in training: without states, and d_x may not be x. The sums of the weights' gradients
// are added in an order that the number of tokens decides.
void short_conv_forward_cuda(const ShortConvForward& args, CudaStream stream);
void short_conv_backward_cuda(const ShortConvBackward& args, CudaStream stream);

inline int64_t short_conv_backward_cuda_workspace(const ShortConvBackward& a) {
  return a.d_weight || a.d_bias ? column_sums_bytes(a.shape.tokens, a.shape.channels, a.shape.width + 1) : 0;
}
inline std::string short_conv_forward_cuda_refusal(const ShortConvForward& a) { return a.states ? "the kernel has no states" : ""; }
inline std::string short_conv_backward_cuda_refusal(const ShortConvBackward& a) {
  return a.d_x == a.x ? "threads read x past the rows that they write" : "";
}

inline GpuLaunches launches(const ShortConvForward& a) {
  return {{"short_conv_forward", 2 * matrix_bytes(a.shape.type, a.shape.tokens, a.shape.channels)}};
}
inline GpuLaunches launches(const ShortConvBackward& a) {
  GpuLaunches list{{"short_conv_backward", 3 * matrix_bytes(a.shape.type, a.shape.tokens, a.shape.channels)}};
  if (const int64_t sums = short_conv_backward_cuda_workspace(a); sums > 0) list.push_back({"short_conv_totals", static_cast<double>(sums)});
  return list;
}

}  // namespace forge
