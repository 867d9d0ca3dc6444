#include "kernels/fp8/e4m3_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/fp8/e4m3.h"

namespace forge {
namespace {

float value_of(uint32_t code) {
  const int exponent = static_cast<int>(code >> 3 & 15), mantissa = static_cast<int>(code & 7);
  const float sign = code & 0x80 ? -1.0f : 1.0f;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  return sign * std::ldexp(static_cast<float>(exponent == 0 ? mantissa : 8 + mantissa), std::max(exponent, 1) - 10);
}

EightBitBook make_book() {
  EightBitBook book;
  for (uint32_t code = 0; code < 256; ++code) book[code] = value_of(code);
  return book;
}

}  // namespace

const EightBitBook& e4m3_book() {
  static const EightBitBook book = make_book();
  return book;
}

float quantize_e4m3(const float* values, int64_t count, uint8_t* codes) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float magnitude = std::fabs(values[i]);
    largest = magnitude > largest || magnitude != magnitude ? magnitude : largest;
  }
  const bool empty = largest < kSmallestRow;
  const float factor = empty ? 0.0f : kE4m3Largest / largest;
  for (int64_t i = 0; i < count; ++i)
    codes[i] = static_cast<uint8_t>(e4m3_of_bits(std::bit_cast<uint32_t>(values[i] * factor)));
  return empty ? 1.0f : largest / kE4m3Largest;
}

}  // namespace forge
