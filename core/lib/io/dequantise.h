#pragma once
// Decodes GGUF's block types into float32, bit for bit like gguf-py's quants.dequantize (and
// llama.cpp's reference): one rounding per product and per sum, so these files are compiled without
// fused multiply-add. Formulas: each block has a half-precision scale d (and minimum m); layouts:
// ggml-common.h of llama.cpp.
//
//   q4_0, q5_0, q8_0   x = d * (q - bias)           32 elements, bias 8, 16, 0
//   q4_1, q5_1         x = d * q + m                32 elements
//   q4_k, q5_k         x = (d*sc) * q - (dmin*mn)   256 elements, 8 groups with 6-bit sc, mn
//   q6_k               x = (d*sc) * (q - 32)        256 elements, 16 groups with 8-bit sc
//   mxfp4              x = 2^(e - 128) * m[q]       32 elements; a byte e, m as below
#include <bit>
#include <cstdint>
#include <cstring>

namespace forge {

using Dequantise = void (*)(const uint8_t* source, int64_t blocks, float* values);

void dequantise_q4_0(const uint8_t* source, int64_t blocks, float* values);
void dequantise_q4_1(const uint8_t* source, int64_t blocks, float* values);
void dequantise_q5_0(const uint8_t* source, int64_t blocks, float* values);
void dequantise_q5_1(const uint8_t* source, int64_t blocks, float* values);
void dequantise_q8_0(const uint8_t* source, int64_t blocks, float* values);
void dequantise_q4_k(const uint8_t* source, int64_t blocks, float* values);
void dequantise_q5_k(const uint8_t* source, int64_t blocks, float* values);
void dequantise_q6_k(const uint8_t* source, int64_t blocks, float* values);
void dequantise_mxfp4(const uint8_t* source, int64_t blocks, float* values);

// Twice the values of E2M1 (a sign, two bits of exponent, one of mantissa), as ggml multiplies.
inline constexpr float kTwiceE2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
// Returns half of the power of two that a byte stands for (E8M0).
inline float half_of_e8m0(uint8_t exponent) {
  const uint32_t bits = exponent < 2 ? 0x00200000u << exponent : (exponent - 1u) << 23;
  return std::bit_cast<float>(bits);
}

// Converts IEEE 754 half to single, without branches so that loops over it vectorise.
inline float half_to_float(uint16_t half) {
  uint32_t magnitude = half & 0x7fffu;
  uint32_t normal = (magnitude << 13) + (112u << 23);  // exponent bias 15 -> 127
  uint32_t special = (magnitude << 13) | 0x7f800000u;  // infinity, NaN
  float small = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f;
  uint32_t subnormal = std::bit_cast<uint32_t>(small);
  uint32_t bits = magnitude >= 0x7c00u ? special : magnitude < 0x400u ? subnormal : normal;
  return std::bit_cast<float>(bits | (half & 0x8000u) << 16);
}

inline float half_at(const uint8_t* source) {
  uint16_t half;
  std::memcpy(&half, source, 2);
  return half_to_float(half);
}

}  // namespace forge
