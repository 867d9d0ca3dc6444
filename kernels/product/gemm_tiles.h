#pragma once
// Products of matrices on forge's own register tiles with fp32 sums, for processors on which no
// library is as fast:
//
//   out [m, n] = alpha · a [m, k] · b [k, n] + (add ? out : 0) + tails
//
// Threads take blocks of the result in turn. The part of b that a block needs is copied panel by
// panel to the thread's stack, and that of a only if a is read across its rows, so nothing is
// allocated. Operands of 16 bits are widened in the copy, and their sums rounded once. The sum of
// an element is taken in the order of k, tails last, for any number of threads: a row has the same
// bits whatever rows are multiplied with it. Operations: 2 · m · n · k.
//
// Adapters are such tails: s Bᵀ is more depth of x Wᵀ, and y is written once. For d x that would
// take d s before the product; it is still added by the adapter's backward, whose whole share of a
// step is 6 %. No other epilogue pays: an addition with its norm is 0.2 % of a step, an activation
// 0.8 %.
#include "kernels/cpu/level.h"
#include "kernels/device/gemm.h"

namespace forge {

// Size of the result's blocks, which a thread takes at a time. A panel has kGemmPanel columns of b;
// a panel of a with kGemmRows rows fits in the second-level cache.
constexpr int64_t kGemmRows = 480, kGemmPanel = 64, kGemmColumns = 256;

// True if the tiles are faster than products row by row.
bool gemm_tiles_work(Element type, CpuLevel level = cpu_level());
// True if the tiles compute every product on this processor. In fp32: on processors that Intel has
// not made, since MKL uses its AVX-512 tiles on Intel's alone. In bf16: where pairs are not
// multiplied at more than fp32's rate (fast_pairs).
bool gemm_tiles_pay(Element type, CpuLevel level = cpu_level());
// Computes a product. batch is 1, and c is null.
void gemm_tiles_cpu(const Gemm& args, CpuLevel level = cpu_level());

// True if the tiles can compute a group's products and gain by it: if they compute every product
// anyway, or if each product alone is too small for threads.
bool gemm_tiles_share(const GemmGroup& args, CpuLevel level = cpu_level());
// Computes a group. The bits are those of the products one after the other.
void gemm_tiles_group_cpu(const GemmGroup& args, CpuLevel level = cpu_level());

}  // namespace forge
