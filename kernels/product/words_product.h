#pragma once
// The product of product_args.h with a w of which sixteen rows lie side by side (quantize/by_16.h) and an x in 16 bits, in whole numbers:
// of each 32 columns a row of x becomes words q under a power of two, x ≈ q · 2^(e − 14) with 2^e ≤ max |x| < 2^(e + 1), the products with
// codes are added up exactly, and 2^(e − 14) · d of the block is multiplied once. bf16 within 2⁻⁷ of the largest beside it is exact, smaller is
// off by 2⁻¹⁵ of that at most. Results have the same bits on every processor. A row with a value that is not finite becomes NaN.
#include "kernels/product/product_args.h"
#include "kernels/quantize/by_16.h"

namespace forge {

inline bool takes_words(const RowProduct& a) { return !a.w && by_16(a.blocks.coding) && a.type != Element::f32; }

int64_t words_product_cpu_workspace(const RowProduct& args);
void words_product_cpu(const RowProduct& args, CpuLevel level);

}  // namespace forge
