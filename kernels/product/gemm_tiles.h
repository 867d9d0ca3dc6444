#pragma once
// Products of matrices in fp32 on register tiles of our own, where nobody else's are as fast:
//
//   out [m, n] = alpha · a [m, k] · b [k, n] + (add ? out : 0) + tails
//
// Blocks of the result are taken by threads as they come. What a block needs of b is laid out panel by panel on the thread's stack, of a
// only where that is read across its rows, so nothing is allocated. Operands of 16 bits are widened as they are laid out, and their sums rounded
// once. The sum of an element is taken in the order of k, tails last, whatever the threads: a row has the same bits in whatever company it comes.
// Operations: 2 · m · n · k.
#include "kernels/cpu/level.h"
#include "kernels/device/gemm.h"

namespace forge {

// Of the result, what a thread takes at a time. Its columns are those of a panel of b; so many rows of a panel of a lie in the second-level cache.
constexpr int64_t kGemmRows = 480, kGemmPanel = 64, kGemmColumns = 256;

// Whether they are faster than products row by row.
bool gemm_tiles_work(Element type, CpuLevel level = cpu_level());
// Whether every product is theirs on this processor. In fp32: MKL gives its AVX-512 tiles to processors of its own maker alone. In bf16: where pairs
// are not multiplied at more than fp32's rate (fast_pairs).
bool gemm_tiles_pay(Element type, CpuLevel level = cpu_level());
// batch is 1, and nothing is added but the result.
void gemm_tiles_cpu(const Gemm& args, CpuLevel level = cpu_level());

// Whether a group's products can be theirs and gain by it: where every product is anyway, or where each alone is too small for threads.
bool gemm_tiles_share(const GemmGroup& args, CpuLevel level = cpu_level());
// The same bits as one after the other.
void gemm_tiles_group_cpu(const GemmGroup& args, CpuLevel level = cpu_level());

}  // namespace forge
