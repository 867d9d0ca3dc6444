#pragma once
// The adapter part of linear layers on a GPU; formulas and shapes as in lora_args.h. Uses a
// library's products, with S and d S rounded to the type between them, like their factors; S itself
// stays fp32. A member's launches: two products forward and four backward, and in 16 bits a
// conversion of S in each; with dropout one pass over x in each, and one over d x.
#include "kernels/device/gemm.h"
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"
#include "kernels/lora/lora_args.h"
#include "kernels/lora/lora_cuda_space.h"

namespace forge {

int64_t lora_forward_cuda_workspace(const LoraForward& args);
void lora_forward_cuda(const LoraForward& args, CudaStream stream);
int64_t lora_backward_cuda_workspace(const LoraBackward& args);
void lora_backward_cuda(const LoraBackward& args, CudaStream stream);

GpuLaunches launches(const LoraForward& args);
GpuLaunches launches(const LoraBackward& args);

}  // namespace forge
