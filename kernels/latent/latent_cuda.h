#pragma once
// Heads of latent attention on a GPU; shapes as in latent_args.h.
#include "kernels/device/launch.h"
#include "kernels/latent/latent_args.h"

namespace forge {

void latent_heads_cuda(const LatentHeads& args, CudaStream stream);
void trim_heads_cuda(const TrimHeads& args, CudaStream stream);

}  // namespace forge
