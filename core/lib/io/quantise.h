#pragma once
// Encodes float32 into GGUF's block types, like llama.cpp's quantize_row_*_ref in ggml-quants.c.
// The inverse of dequantise.h, which states the layouts.
//
//   q4_0, q5_0   d = (the value of largest magnitude) / -8, / -16
//   q8_0         d = max|x| / 127
//   q5_1         d = (max - min) / 31, m = min
//   q4_k, q5_k   scale and minimum of each group of 32 by weighted least squares over a grid of 21 or 16 scales
//   q6_k         scale of each group of 16 by least squares over a grid of 19 scales
//
// Compiled without fused multiply-add; a ggml compiled with it rounds a few values in a thousand to
// the neighbour.
#include <cstdint>

namespace forge {

using Quantise = void (*)(const float* values, int64_t blocks, uint8_t* destination);

// Returns the value of largest magnitude (the first of several), with its sign.
float extreme(const float* values, int count);

void quantise_q4_0(const float* values, int64_t blocks, uint8_t* destination);
void quantise_q5_0(const float* values, int64_t blocks, uint8_t* destination);
void quantise_q5_1(const float* values, int64_t blocks, uint8_t* destination);
void quantise_q8_0(const float* values, int64_t blocks, uint8_t* destination);
void quantise_q4_k(const float* values, int64_t blocks, uint8_t* destination);
void quantise_q5_k(const float* values, int64_t blocks, uint8_t* destination);
void quantise_q6_k(const float* values, int64_t blocks, uint8_t* destination);

}  // namespace forge
