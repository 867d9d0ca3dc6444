#pragma once
// Counter-based dropout on a GPU; shapes and bytes as in dropout_args.h.
#include "kernels/device/launch.h"
#include "kernels/dropout/dropout_args.h"

namespace forge {

void counter_dropout_cuda(const CounterDropout& args, CudaStream stream);

}  // namespace forge
