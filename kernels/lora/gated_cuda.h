#pragma once
// Gated activations with the adapters beside them on a GPU, in 16 bits, one launch each; formulas
// and shapes as in gated_args.h.
#include <string>

#include "kernels/device/launch.h"
#include "kernels/lora/gated_args.h"

namespace forge {

int64_t gated_sums_cuda_workspace(const GatedSums& args);
void gated_sums_cuda(const GatedSums& args, CudaStream stream);
std::string gated_sums_cuda_refusal(const GatedSums& args);
int64_t gated_gradients_cuda_workspace(const GatedGradients& args);
void gated_gradients_cuda(const GatedGradients& args, CudaStream stream);
std::string gated_gradients_cuda_refusal(const GatedGradients& args);

}  // namespace forge
