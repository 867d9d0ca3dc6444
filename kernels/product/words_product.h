#pragma once
// The product of product_args.h with a w in blocks of sixteen rows side by side (quantize/by_16.h)
// and an x in 16 bits, in whole numbers: each 32 columns of a row of x become words q and a power
// of two, x ≈ q · 2^(e − 14) with 2^e ≤ max |x| < 2^(e + 1). The products with codes are added up
// exactly, and 2^(e − 14) · d of the block is multiplied once. bf16 within 2⁻⁷ of the largest of
// the 32 is exact; smaller values are off by at most 2⁻¹⁵ of the largest. Results have the same
// bits on every processor. A row with a value that is not finite becomes NaN.
//
// Less is lost than where x was rounded to bf16, and than in llama.cpp's bytes of x. One
// instruction (vpdpwssd) does what two did in fp32: sixteen texts of SmolLM2 have 576 tokens/s in
// q4_0 and 446 in q8_0 for 415 and 331, four have 388 and 284 for 293 and 217. One text was slower
// (143 for 155 tokens/s) while each task began a new place in memory every 24 KiB; with 96 KiB it
// has 165 for 128. Models that compute in fp32 decode blocks instead (quantize/chunks.h).
#include "kernels/product/product_args.h"
#include "kernels/quantize/by_16.h"

namespace forge {

inline bool takes_words(const RowProduct& a) { return !a.w && by_16(a.blocks.coding) && a.type != Element::f32; }

int64_t words_product_cpu_workspace(const RowProduct& args);
void words_product_cpu(const RowProduct& args, CpuLevel level);

}  // namespace forge
