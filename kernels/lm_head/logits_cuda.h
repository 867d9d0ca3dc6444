#pragma once
#include "kernels/device/launch.h"
#include "kernels/lm_head/logits_args.h"

namespace forge {

void logits_cuda(const LogitsChunk& args, CudaStream stream);

}  // namespace forge
