#pragma once
// Residual + RMSNorm on a GPU; formulas, shapes and bytes as in rms_norm_args.h. Results do not
// depend on timing: the weight's gradient is summed by columns in a fixed order.
#include "kernels/device/column_sums.h"
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"
#include "kernels/rms_norm/rms_norm_args.h"

namespace forge {

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
