#pragma once
// Thin products of folded adapters on a GPU, in 16 bits, one launch each; formulas and shapes as in
// folded_args.h.
#include <string>

#include "kernels/device/launch.h"
#include "kernels/lora/folded_args.h"

namespace forge {

int64_t adapter_sums_cuda_workspace(const AdapterSums& args);
void adapter_sums_cuda(const AdapterSums& args, CudaStream stream);
std::string adapter_sums_cuda_refusal(const AdapterSums& args);
int64_t adapter_sums_gradient_cuda_workspace(const AdapterSumsGradient& args);
void adapter_sums_gradient_cuda(const AdapterSumsGradient& args, CudaStream stream);
std::string adapter_sums_gradient_cuda_refusal(const AdapterSumsGradient& args);

}  // namespace forge
