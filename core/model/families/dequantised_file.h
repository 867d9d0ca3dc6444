#pragma once
// Presents block-quantised matrices of a checkpoint, which have one scale per block, as plain
// matrices.
//
//   mxfp4 (gpt-oss)     NAME_blocks u8 [experts, out, in / 32, 16], two numbers a byte, the lower four bits first;
//                       NAME_scales u8 [experts, out, in / 32], exponents with bias 127  →  NAME [experts, in, out]
//   fp8 (DeepSeek-V3)   NAME.weight f8_e4m3 [out, in]; NAME.weight_scale_inv [⌈out / b⌉, ⌈in / b⌉], of squares of b = 2^n  →  NAME.weight
//
// Sources: Open Compute Project, Microscaling Formats 1.0; transformers' integrations/mxfp4.py and
// finegrained_fp8.py.
#include <memory>

#include "core/lib/io/tensor_file.h"

namespace forge {

// Returns `file` itself if it has no such tensors. Throws Error(environment) for scales that do not
// fit their blocks.
std::unique_ptr<TensorFile> dequantised(std::unique_ptr<TensorFile> file);

}  // namespace forge
