#pragma once
// Residual addition and RMS normalisation on plain memory, forward and backward, for every backend.
//
//   h = x + residual (or x)           rounded to the type: it is the next residual stream
//   r = 1 / sqrt(mean(h²) + eps)
//   y = h · r · (weight + weight_offset)
//
//   g         = d y (weight + weight_offset)
//   d h       = r (g − h r · mean(g h r)) + d_h
//   d weight += Σ d y h r
//
// Arithmetic is in fp32, every result is rounded once. weight_offset is 1 in Gemma, else 0. Strides
// are elements from row to row. With several heads each stretch of `width` in a row is normalised
// by itself, all by one weight, or each by its own: x, h, y and their gradients are rows of heads ·
// width. A row with a
// NaN or an infinity gives NaN in that row alone. Bytes, forward with residual: 4 passes of rows ·
// width elements (read x, residual; write h, y), 2 without. Bytes, backward: read d y, h, d_h;
// write d_h: 4 passes, 5 with y; the weight gradient reads d y and h once more.
//
// The stream (residual, h and d h, and x if there is no residual) may be fp32 beside fp16.
#include <cstdint>
#include <optional>

#include "kernels/common/element.h"
#include "kernels/cpu/level.h"
#include "kernels/device/column_sums.h"
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"

namespace forge {

struct RmsNormForward {
  Element type = Element::f32;  // of x, residual, weight, h, y
  int64_t rows = 0, width = 0;
  const void* x = nullptr;
  int64_t x_stride = 0;
  const void* residual = nullptr;  // or null: h = x, and h is not written
  int64_t residual_stride = 0;
  void* h = nullptr;  // with a residual; may be x or residual
  int64_t h_stride = 0;
  const void* weight = nullptr;  // [width]; with head_weights [heads · width]
  float weight_offset = 0, eps = 1e-6f;
  void* y = nullptr;  // may be x, or residual when that is not h
  int64_t y_stride = 0;
  float* inverse = nullptr;  // [heads, rows] r for the backward, or null
  int64_t heads = 1;
  bool head_weights = false;  // on a CPU
  // The stream's type if it is not `type`: fp32 beside fp16. Then only h may overwrite an operand:
  // residual.
  std::optional<Element> stream_type;
};

struct RmsNormBackward {
  Element type = Element::f32;  // of d_y, h, weight, d_h
  int64_t rows = 0, width = 0;
  const void* d_y = nullptr;
  int64_t d_y_stride = 0;
  const void* h = nullptr;
  int64_t h_stride = 0;
  const void* weight = nullptr;  // [width]; with head_weights [heads · width]
  float weight_offset = 0;
  const float* inverse = nullptr;  // [heads, rows], of the forward
  void* d_h = nullptr;             // may be d_y
  int64_t d_h_stride = 0;
  bool accumulate = false;    // add to d_h, the gradient of the residual stream, instead of writing it
  float* d_weight = nullptr;  // like weight, added to; or null. Then d_h may not be d_y
  int64_t heads = 1;
  bool head_weights = false;  // on a CPU
  void* workspace = nullptr;  // on a GPU
  void* y = nullptr;  // the forward's result again, for the gradients of weights that read it; may be d_y, but not d_h; or null
  int64_t y_stride = 0;
  std::optional<Element> stream_type;  // of h and d_h, where it is not `type`: fp32 beside fp16. Then d_h may not be d_y
};

void rms_norm_forward_cpu(const RmsNormForward& args, CpuLevel level = cpu_level());
void rms_norm_backward_cpu(const RmsNormBackward& args, CpuLevel level = cpu_level());

// ---- on a GPU
//
// Results do not depend on timing: the weight's gradient is summed by columns in a fixed order.

void rms_norm_forward_cuda(const RmsNormForward& args, CudaStream stream);
void rms_norm_backward_cuda(const RmsNormBackward& args, CudaStream stream);
// Bytes for the weight's gradient.
inline int64_t rms_norm_backward_cuda_workspace(const RmsNormBackward& args) {
  return args.d_weight ? column_sums_bytes(args.rows * args.heads, args.width, 1) : 0;
}

inline GpuLaunches launches(const RmsNormForward& a) {
  const int64_t width = a.heads * a.width, operands = a.residual ? 2 : 1;
  const double rows = matrix_bytes(a.type, a.rows, width), stream = matrix_bytes(a.stream_type.value_or(a.type), a.rows, width);
  return {{"rms_norm_forward", static_cast<double>(operands) * (rows + stream) + matrix_bytes(Element::f32, a.rows, a.heads)}};
}
inline GpuLaunches launches(const RmsNormBackward& a) {
  const int64_t width = a.heads * a.width;
  const double rows = matrix_bytes(a.type, a.rows, width), stream = matrix_bytes(a.stream_type.value_or(a.type), a.rows, width);
  GpuLaunches list;
  if (a.d_weight) {
    const double sums = 2 * matrix_bytes(Element::f32, width);
    list = {{"rms_norm_weight", rows + stream}, {"rms_norm_weight_total", sums, sums}};
  }
  list.push_back({"rms_norm_backward", (a.y ? 2 : 1) * rows + (a.accumulate ? 3 : 2) * stream + matrix_bytes(Element::f32, a.rows, a.heads)});
  return list;
}

}  // namespace forge
