#pragma once
// The update of the flat trainable buffers on a GPU; formulas and contracts as in optimizer_args.h,
// every pointer in device memory. Two launches a step: the norm, and one update over all ranges of
// settings.
#include "kernels/device/launch.h"
#include "kernels/optimizer/optimizer_args.h"

namespace forge {

// Number of blocks that leave a partial sum each: enough to fill any GPU.
constexpr int64_t kNormBlocks = 1024;
// FlatNorm::workspace has this many bytes. The result does not depend on timing.
inline int64_t gradient_norm_cuda_workspace(const FlatNorm&) { return (kNormBlocks + 1) * 8; }
void gradient_norm_cuda(const FlatNorm& args, CudaStream stream);
void adamw_cuda(const AdamWUpdate& args, CudaStream stream);
void lion_cuda(const LionUpdate& args, CudaStream stream);
void adamw_8bit_cuda(const AdamW8bitUpdate& args, CudaStream stream);

}  // namespace forge
