#pragma once
// The gated activations on a GPU; formulas, shapes and bytes as in swiglu_args.h.
#include "kernels/device/launch.h"
#include "kernels/swiglu/swiglu_args.h"

namespace forge {

void swiglu_forward_cuda(const SwigluForward& args, CudaStream stream);
void swiglu_backward_cuda(const SwigluBackward& args, CudaStream stream);
void clamped_glu_forward_cuda(const ClampedGluForward& args, CudaStream stream);
void clamped_glu_backward_cuda(const ClampedGluBackward& args, CudaStream stream);

}  // namespace forge
