// The type E4M3: eight bits with a sign, four of exponent (bias 7) and three of mantissa; no
// infinity, and all ones is not a number (Micikevicius et al., "FP8 Formats for Deep Learning",
// 2022). The code works on bits alone, so that host and device share it; FORGE_E4M3 names their
// qualifiers.
#pragma once
#ifndef FORGE_E4M3
#define FORGE_E4M3 inline
#endif

namespace forge {

constexpr float kE4m3Largest = 448;
constexpr float kSmallestRow = 0x1p-100f;  // a row without such a magnitude becomes zeros

// Returns the code of an fp32 number given by its bits, rounded to nearest even. Magnitudes above
// 448 become 448. NaN stays NaN, without its sign.
FORGE_E4M3 uint32_t e4m3_of_bits(uint32_t bits) {
  const uint32_t sign = bits >> 24 & 0x80, magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return 0x7F;
  if (magnitude >= 0x43E00000) return sign | 0x7E;
  if (magnitude >= 0x3C800000) return sign | (((magnitude + 0x7FFFF + (magnitude >> 20 & 1)) >> 20) - (120 << 3));
  // Below 2⁻⁶ codes have steps of 2⁻⁹: the mantissa with its leading one, shifted right.
  const uint32_t shift = 141 - (magnitude >> 23);
  if (shift > 24) return sign;
  const uint32_t mantissa = (magnitude & 0x7FFFFF) | 0x800000;
  return sign | ((mantissa + (1u << (shift - 1)) - 1 + (mantissa >> shift & 1)) >> shift);
}

}  // namespace forge
