#pragma once
// The activation of an MLP without a gate on a GPU; formulas, shapes and bytes as in
// activation_args.h.
#include "kernels/activation/activation_args.h"
#include "kernels/device/launch.h"

namespace forge {

void activation_forward_cuda(const ActivationForward& args, CudaStream stream);
void activation_backward_cuda(const ActivationBackward& args, CudaStream stream);

}  // namespace forge
