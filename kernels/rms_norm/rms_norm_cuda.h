#pragma once
// Residual + RMSNorm on a GPU; formulas, shapes and bytes as in rms_norm_args.h. Results do not
// depend on timing: the weight's gradient is summed by columns in a fixed order.
#include "kernels/device/column_sums.h"
#include "kernels/device/launch.h"
#include "kernels/rms_norm/rms_norm_args.h"

namespace forge {

void rms_norm_forward_cuda(const RmsNormForward& args, CudaStream stream);
void rms_norm_backward_cuda(const RmsNormBackward& args, CudaStream stream);
// Bytes for the weight's gradient.
inline int64_t rms_norm_backward_cuda_workspace(const RmsNormBackward& args) {
  return args.d_weight ? column_sums_bytes(args.rows * args.heads, args.width, 1) : 0;
}

}  // namespace forge
