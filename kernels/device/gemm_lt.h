#pragma once
// A product by cuBLASLt itself: D = alpha · A B + C with C and D apart. LibTorch's addmm copies C to D first, which is the pass over memory
// that is to be saved; and before 2.8 it has no fp32 D of factors in 16 bits.
//
//   if (!gemm_lt(gpu, g, stream)) …   // LibTorch's, which copies
#include "kernels/device/gemm.h"

namespace forge {

// `gpu`: the calling thread's. g.workspace has device_gemm_workspace() bytes, or is null. → false where cuBLASLt has no kernel for it, or
// is not there. What it needs for a shape is found once; after that it neither allocates nor asks, so that it can be captured. Throws
// Error(environment) where the product is refused.
bool gemm_lt(int gpu, const Gemm& g, CudaStream stream);

}  // namespace forge
