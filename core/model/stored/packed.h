#pragma once
// Matrices of whole numbers that are packed into words of 32 bits, as post-training quantisers
// write them. A code of b bits is at bits [i·b, i·b + b) of a line of words and may cross into the
// next word; scales and zero points are of groups of inputs.
//
//   GPTQ       STEM.qweight i32 [in·b / 32, out], along in
//              STEM.qzeros i32 [groups, out·b / 32], along out; STEM.scales [groups, out]
//              STEM.g_idx i32 [in], the group of each input, or absent: in order, group_size each
//              →  STEM.weight [out, in]: scale · (code - zero)
//              v1 (checkpoint_format: gptq) stores zero - 1, v2 zero itself.
//   AWQ        STEM.qweight i32 [in, out / 8], STEM.qzeros i32 [groups, out / 8]: eight codes of
//   (GEMM)     four bits a word, of outputs 0, 2, 4, 6, 1, 3, 5, 7; STEM.scales [groups, out]
//              →  STEM.weight [out, in]: (code - zero) · scale
//   compressed STEM.weight_packed i32 [out, ⌈in·b / 32⌉]; STEM.weight_shape [2]
//   -tensors   STEM.weight_scale of one, of rows or [out, groups]
//   (pack-     STEM.weight_zero_point i32 [⌈out·b / 32⌉, groups], along out, or absent
//   quantized) STEM.weight_g_idx i32 [in] or absent
//              →  STEM.weight [out, in]: (code - zero) · scale
//              Codes and zero points are stored plus 2^(b - 1).
//
// All are rounded once, to the type of the scales. Sources: auto_gptq 0.7.1,
// nn_modules/qlinear/qlinear_cuda.py; GPTQModel, nn_modules/qlinear/torch.py; autoawq 0.2.9,
// utils/packing_utils.py; compressed-tensors 0.20.1, compressors/pack_quantized (g_idx: 0.9).
#include "core/model/stored/search.h"

namespace forge {

void find_gptq(StoredSearch& search);
void find_awq(StoredSearch& search);
void find_packed_rows(StoredSearch& search);

}  // namespace forge
