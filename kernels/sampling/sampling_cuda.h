#pragma once
// Next-token sampling on a GPU in one launch; rules and shapes as in sampling_args.h.
#include "kernels/device/launch.h"
#include "kernels/sampling/sampling_args.h"

namespace forge {

void sampling_cuda(const Sampling& args, CudaStream stream);

}  // namespace forge
