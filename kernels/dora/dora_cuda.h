#pragma once
// DoRA's rescaling on a GPU; formulas, shapes and bytes as in dora_args.h.
#include "kernels/device/launch.h"
#include "kernels/dora/dora_args.h"

namespace forge {

void dora_forward_cuda(const DoraForward& args, CudaStream stream);
void dora_backward_cuda(const DoraBackward& args, CudaStream stream);

void dora_ratio_cuda(const DoraRatio& args, CudaStream stream);

}  // namespace forge
