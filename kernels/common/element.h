#pragma once
// The types that a kernel reads and writes, and their conversion one value at a time. No torch:
// host code, nvcc and tests share it. Arithmetic is fp32 everywhere; these are storage.
#include <bit>
#include <cstdint>
#include <cstring>

namespace forge {

enum class Element { f32, bf16, f16 };

struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

inline int64_t bytes_of(Element type) { return type == Element::f32 ? 4 : 2; }

inline float to_float(float value) { return value; }
inline float to_float(Bf16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }
// Shifts exponent and mantissa into fp32's places and multiplies the bias difference away;
// denormals come out right.
inline float to_float(F16 value) {
  uint32_t magnitude = value.bits & 0x7fffu, sign = (value.bits & 0x8000u) << 16;
  uint32_t bits = magnitude >= 0x7c00u ? 0x7f800000u | (magnitude & 0x3ffu) << 13 : magnitude << 13;
  auto result = std::bit_cast<float>(bits);
  if (magnitude < 0x7c00u) result *= 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(result) | sign);
}

// All three round to nearest even; NaN stays NaN, too large becomes infinite.
inline void from_float(float value, float& out) { out = value; }
inline void from_float(float value, Bf16& out) {
  const auto bits = std::bit_cast<uint32_t>(value);
  bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  out.bits = static_cast<uint16_t>(nan ? (bits >> 16) | 0x40u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
inline void from_float(float value, F16& out) {
  auto bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) {
    out.bits = static_cast<uint16_t>(sign | 0x7e00u);
  } else if (bits >= 0x477ff000u) {  // 65520 and above
    out.bits = static_cast<uint16_t>(sign | 0x7c00u);
  } else if (bits < 0x38800000u) {  // below 2^-14: adding 0.5 rounds at 2^-24, the step of a denormal
    bits = std::bit_cast<uint32_t>(std::bit_cast<float>(bits) + 0.5f);
    out.bits = static_cast<uint16_t>(sign | (bits - 0x3f000000u));
  } else {
    bits += 0xfffu + ((bits >> 13) & 1u) - 0x38000000u;
    out.bits = static_cast<uint16_t>(sign | (bits >> 13));
  }
}

}  // namespace forge
