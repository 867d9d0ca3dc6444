#pragma once
// A product on a CPU: in fp32 by forge's tiles where they pay off (kernels/product/gemm_tiles.h),
// otherwise by LibTorch (MKL, oneDNN, its own). Operands may have gaps between their rows.
#include "kernels/device/gemm.h"

namespace forge {

// A product of 16-bit factors with an fp32 result is rounded in the workspace first: LibTorch has
// no such product on a CPU.
inline int64_t product_cpu_workspace(const Gemm& g) { return g.out_type == g.type ? 0 : g.m * g.n * bytes_of(g.type); }
void product_cpu(const Gemm& args);
// Computes a group. In fp32, threads share the blocks of all products if the products are too small
// to have threads each.
void products_cpu(const GemmGroup& args);

}  // namespace forge
