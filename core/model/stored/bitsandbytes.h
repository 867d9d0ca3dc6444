#pragma once
// Matrices in 4 and 8 bits as bitsandbytes' Linear4bit and Linear8bitLt store them.
//
//   4 bits  NAME [n / 2, 1], of any type: two codes a byte, the first in the high half
//           NAME.absmax f32 [blocks]; or nested u8 [blocks], with NAME.nested_absmax f32
//           [blocks / 256] and NAME.nested_quant_map f32 [256]
//           NAME.quant_map f32 [16]
//           NAME.quant_state.bitsandbytes__nf4 (or fp4) u8: JSON with quant_type, blocksize, dtype,
//           shape, and nested_blocksize, nested_dtype, nested_offset
//           →  NAME of that shape: book[code] · absmax, rounded to dtype
//   8 bits  STEM.weight i8 [out, in]; STEM.SCB f32 [out]; STEM.weight_format u8: 0, rows
//           →  STEM.weight: (code · SCB) · 1/127 in fp32
//
// Source: bitsandbytes 0.50.2, functional.py (QuantState) and backends/default/ops.py. Its decoding
// takes its own book whatever quant_map says; a file whose map is another is refused here.
#include "core/model/stored/search.h"

namespace forge {

void find_bitsandbytes(StoredSearch& search);

}  // namespace forge
