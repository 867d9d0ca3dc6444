#pragma once
// Rows in E4M3 with a scale each, one at a time on the host. No torch here.
#include "kernels/quantize/blocks.h"

namespace forge {

// The value of each code; 0x7F and 0xFF are not numbers.
const EightBitBook& e4m3_book();

// Quantises a row like QuantizeRows (fp8_args.h). Returns the row's scale.
float quantize_e4m3(const float* values, int64_t count, uint8_t* codes);

}  // namespace forge
