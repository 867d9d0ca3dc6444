#pragma once
// Layer normalisation on a GPU; formulas, shapes and bytes as in layer_norm_args.h. Results do not
// depend on timing.
#include "kernels/device/column_sums.h"
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"
#include "kernels/layer_norm/layer_norm_args.h"

namespace forge {

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
