#pragma once
// A product by cuBLASLt itself: D = alpha · A B + C with C and D apart. LibTorch's addmm copies C
// to D first, a pass over memory that this saves; and before 2.8 it has no fp32 D of factors in 16
// bits.
//
//   if (!gemm_lt(gpu, g, stream)) …   // LibTorch's, which copies
//
// cuBLASLt is found by name among what LibTorch has loaded, since the engine is also linked where
// there is no cuBLAS. If it knows no kernel, LibTorch's copy stays. Parts of the depth are added up
// in fp32 alone, in a workspace of the arena.
#include "kernels/device/gemm.h"

namespace forge {

// Runs the product. `gpu` is the calling thread's. g.workspace has device_gemm_workspace() bytes,
// or is null. Returns false if cuBLASLt has no kernel for the product or is not loaded. The kernel
// of a shape is found once; later calls neither allocate nor ask cuBLASLt, so they can be captured.
// Throws Error(environment) if the product is refused.
bool gemm_lt(int gpu, const Gemm& g, CudaStream stream);

}  // namespace forge
