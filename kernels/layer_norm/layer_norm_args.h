#pragma once
// Layer normalisation (Ba et al., 2016) on plain memory, forward and backward.
//
//   μ = mean(x)   r = 1 / sqrt(mean((x − μ)²) + eps)   n = (x − μ) r
//   y = n · (weight + weight_offset) + bias
//
//   g         = d y · (weight + weight_offset)
//   d x       = r (g − mean(g) − n · mean(g n)) + d_x
//   d weight += Σ d y n
//   d bias   += Σ d y
//
// weight_offset is 1 in Nemotron, else 0. Without a weight (OLMo) the factor is 1.
//
// Arithmetic in fp32, every result rounded once. Strides are elements from row to row. A row with a
// NaN or an infinity gives NaN in that row alone. Bytes, in passes of rows · width elements:
// forward 2; backward 3, 4 where it adds to d_x, and d y and x once more for the weight's gradient.
#include <cstdint>
#include <optional>

#include "kernels/common/element.h"
#include "kernels/cpu/level.h"
#include "kernels/device/column_sums.h"
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"

namespace forge {

struct LayerNormForward {
  Element type = Element::f32;  // of x, weight, bias, y
  int64_t rows = 0, width = 0;
  const void* x = nullptr;
  int64_t x_stride = 0;
  const void* weight = nullptr;  // [width], or null
  const void* bias = nullptr;    // [width], or null
  float weight_offset = 0, eps = 1e-5f;
  void* y = nullptr;  // may be x
  int64_t y_stride = 0;
  float* statistics = nullptr;  // [rows, 2] μ and r for the backward, or null
  // The type of x if it is not `type`: an fp32 stream beside fp16. Then y may not be x.
  std::optional<Element> x_type;
};

struct LayerNormBackward {
  Element type = Element::f32;  // of d_y, x, weight, d_x
  int64_t rows = 0, width = 0;
  const void* d_y = nullptr;
  int64_t d_y_stride = 0;
  const void* x = nullptr;
  int64_t x_stride = 0;
  const void* weight = nullptr;       // [width], or null
  float weight_offset = 0;
  const float* statistics = nullptr;  // [rows, 2], of the forward
  void* d_x = nullptr;                // may be d_y where no gradient of weight or bias is wanted
  int64_t d_x_stride = 0;
  bool accumulate = false;    // add to d_x instead of writing it
  float* d_weight = nullptr;  // [width], added to; or null
  float* d_bias = nullptr;    // [width], added to; or null
  void* workspace = nullptr;  // on a GPU
  std::optional<Element> x_type;  // of x and d_x, where it is not `type`: an fp32 stream beside fp16. Then d_x may not be d_y
};

void layer_norm_forward_cpu(const LayerNormForward& args, CpuLevel level = cpu_level());
void layer_norm_backward_cpu(const LayerNormBackward& args, CpuLevel level = cpu_level());

// ---- on a GPU
//
// Results do not depend on timing.

void layer_norm_forward_cuda(const LayerNormForward& args, CudaStream stream);
void layer_norm_backward_cuda(const LayerNormBackward& args, CudaStream stream);
// Bytes for the gradients of weight and bias.
inline int64_t layer_norm_backward_cuda_workspace(const LayerNormBackward& args) {
  return args.d_weight || args.d_bias ? column_sums_bytes(args.rows, args.width, 2) : 0;
}

inline GpuLaunches launches(const LayerNormForward& a) {
  return {{"layer_norm_forward", matrix_bytes(a.type, a.rows, a.width) + matrix_bytes(a.x_type.value_or(a.type), a.rows, a.width) +
                                     matrix_bytes(Element::f32, a.rows, 2)}};
}
inline GpuLaunches launches(const LayerNormBackward& a) {
  const double rows = matrix_bytes(a.type, a.rows, a.width), stream = matrix_bytes(a.x_type.value_or(a.type), a.rows, a.width);
  GpuLaunches list;
  if (a.d_weight || a.d_bias) {
    const double sums = 2 * matrix_bytes(Element::f32, a.width);
    list = {{"layer_norm_weight", rows + stream}, {"layer_norm_weight_total", sums, sums}};
  }
  list.push_back({"layer_norm_backward", rows + (a.accumulate ? 3 : 2) * stream + matrix_bytes(Element::f32, a.rows, 2)});
  return list;
}

}  // namespace forge
