#pragma once
// Rotary embedding in place on a fused projection, on a GPU; formulas, shapes and bytes as in
// rope_args.h. q, k and v are afterwards the strided parts of the same buffer: the split moves
// nothing.
#include "kernels/device/launch.h"
#include "kernels/rope/rope_args.h"

namespace forge {

void rope_cuda(const Rope& args, CudaStream stream);

}  // namespace forge
