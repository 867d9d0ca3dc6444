#include "core/lib/io/encode.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/lib/base/error.h"
#include "core/lib/io/quantise.h"

namespace forge {
namespace {

void copy(const float* values, int64_t count, uint8_t* destination) {
  std::memcpy(destination, values, static_cast<size_t>(count) * 4);
}

template <uint16_t (*to_stored)(float)>
void convert(const float* values, int64_t count, uint8_t* destination) {
  for (int64_t i = 0; i < count; ++i, destination += 2) {
    const uint16_t stored = to_stored(values[i]);
    std::memcpy(destination, &stored, 2);
  }
}

struct Encoder {
  DType dtype;
  Quantise encode;
};

constexpr Encoder kEncoders[] = {
    {DType::f32, copy},           {DType::f16, convert<half_of>}, {DType::bf16, convert<bf16_of>},
    {DType::q4_0, quantise_q4_0}, {DType::q5_0, quantise_q5_0},   {DType::q5_1, quantise_q5_1},
    {DType::q8_0, quantise_q8_0}, {DType::q4_k, quantise_q4_k},   {DType::q5_k, quantise_q5_k},
    {DType::q6_k, quantise_q6_k},
};

}  // namespace

uint16_t half_of(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;                // not a number
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;               // rounds past 65504
  if (magnitude < 0x38800000u) {                                     // below 2^-14: multiples of 2^-24
    const float scaled = std::fabs(value) * 0x1p24f;
    return sign | static_cast<uint16_t>(std::lrintf(scaled));
  }
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1);
  return sign | static_cast<uint16_t>((rounded - (112u << 23)) >> 13);
}

uint16_t bf16_of(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

void put_half(float value, uint8_t* destination) {
  const uint16_t half = half_of(value);
  std::memcpy(destination, &half, 2);
}

void encode_from_f32(DType dtype, const float* values, int64_t count, void* destination) {
  if (count == 0) return;
  const auto* encoder = std::ranges::find(kEncoders, dtype, &Encoder::dtype);
  FORGE_CHECK(encoder != std::end(kEncoders), "no encoder for " << name_of(dtype));
  FORGE_CHECK(count % block_elements(dtype) == 0, count << " values are not whole blocks of " << name_of(dtype));
  encoder->encode(values, count / block_elements(dtype), static_cast<uint8_t*>(destination));
}

}  // namespace forge
