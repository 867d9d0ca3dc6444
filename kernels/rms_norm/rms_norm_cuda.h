#pragma once
// Residual + RMSNorm on a GPU; formulas, shapes and bytes as in rms_norm_args.h. Results do not depend on
// timing: the weight's gradient is summed by columns in a fixed order.
#include "kernels/device/launch.h"
#include "kernels/rms_norm/rms_norm_args.h"

namespace forge {

void rms_norm_forward_cuda(const RmsNormForward& args, CudaStream stream);
void rms_norm_backward_cuda(const RmsNormBackward& args, CudaStream stream);

}  // namespace forge
