#pragma once
// A product on a CPU: in fp32 by forge's tiles where they pay (kernels/product/gemm_tiles.h), else LibTorch's (MKL, oneDNN, its own).
// Operands may have gaps between their rows.
#include "kernels/device/gemm.h"

namespace forge {

// Factors in 16 bits with an fp32 result: LibTorch has no such product on a CPU. It is rounded in the workspace first.
int64_t product_cpu_workspace(const Gemm& args);
void product_cpu(const Gemm& args);
// In fp32 threads share the blocks of all products, where these are too small to have threads each.
void products_cpu(const GemmGroup& args);

}  // namespace forge
