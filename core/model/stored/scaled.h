#pragma once
// Matrices whose numbers are one tensor and whose scales are another.
//
//   mxfp4 (gpt-oss)  NAME_blocks u8 [experts, out, in / 32, 16], two numbers a byte, the lower
//                    four bits first; NAME_scales u8 [experts, out, in / 32], exponents with bias
//                    127  →  NAME [experts, in, out]
//   nvfp4            STEM.weight_packed u8 [out, in / 2], two numbers a byte like mxfp4's;
//                    STEM.weight_scale f8 e4m3 [out, in / 16]; STEM.weight_global_scale f32, which
//                    scales were multiplied with; in files of ModelOpt STEM.weight and
//                    STEM.weight_scale_2, its inverse  →  STEM.weight, rounded to bf16
//   fp8 in blocks    NAME f8 [out, in]; NAME_scale_inv [⌈out / a⌉, ⌈in / b⌉] of blocks of [a, b],
//                    whose edges may be cut  →  NAME
//                    config.json's weight_block_size states a and b; without it they are the
//                    smallest power of two that gives as many blocks.
//   fp8, int8        STEM.weight f8 or i8 [out, in]; STEM.weight_scale [], [1], [out], [out, 1],
//                    [out, groups] or of blocks [a, b]; STEM.weight_zero_point like it, or absent
//                    →  STEM.weight: (number - zero point) · scale, rounded to the scale's type
//
// Sources: Open Compute Project, Microscaling Formats 1.0; transformers' integrations/mxfp4.py and
// finegrained_fp8.py; compressed-tensors 0.20.1, quantization/lifecycle; ModelOpt's NVFP4QTensor.
#include "core/model/stored/search.h"

namespace forge {

void find_mxfp4(StoredSearch& search);
// Adds matrices in nvfp4, of compressed-tensors (STEM.weight_packed) and of ModelOpt (STEM.weight).
void find_nvfp4(StoredSearch& search);
void find_scaled(StoredSearch& search);

}  // namespace forge
