// Block types of 32 elements. Low nibbles are elements 0-15, high nibbles 16-31.
#include "core/lib/io/dequantise.h"

namespace forge {
namespace {

constexpr int kBlock = 32, kHalf = 16;

// Returns the fifth bits: bit i of the 32-bit little-endian word belongs to element i.
inline uint32_t high_bits_at(const uint8_t* source) {
  uint32_t bits;
  std::memcpy(&bits, source, 4);
  return bits;
}

}  // namespace

void dequantise_q4_0(const uint8_t* source, int64_t blocks, float* values) {
  for (int64_t block = 0; block < blocks; ++block, source += 18, values += kBlock) {
    const float d = half_at(source);
    const uint8_t* quants = source + 2;
    for (int i = 0; i < kHalf; ++i) values[i] = d * static_cast<float>((quants[i] & 15) - 8);
    for (int i = 0; i < kHalf; ++i) values[i + kHalf] = d * static_cast<float>((quants[i] >> 4) - 8);
  }
}

void dequantise_q4_1(const uint8_t* source, int64_t blocks, float* values) {
  for (int64_t block = 0; block < blocks; ++block, source += 20, values += kBlock) {
    const float d = half_at(source), m = half_at(source + 2);
    const uint8_t* quants = source + 4;
    for (int i = 0; i < kHalf; ++i) values[i] = d * static_cast<float>(quants[i] & 15) + m;
    for (int i = 0; i < kHalf; ++i) values[i + kHalf] = d * static_cast<float>(quants[i] >> 4) + m;
  }
}

void dequantise_q5_0(const uint8_t* source, int64_t blocks, float* values) {
  for (int64_t block = 0; block < blocks; ++block, source += 22, values += kBlock) {
    const float d = half_at(source);
    const uint32_t high = high_bits_at(source + 2);
    const uint8_t* quants = source + 6;
    for (int i = 0; i < kHalf; ++i) {
      int low = (quants[i] & 15) | ((high >> i & 1) << 4);
      int upper = (quants[i] >> 4) | ((high >> (i + kHalf) & 1) << 4);
      values[i] = d * static_cast<float>(low - 16);
      values[i + kHalf] = d * static_cast<float>(upper - 16);
    }
  }
}

void dequantise_q5_1(const uint8_t* source, int64_t blocks, float* values) {
  for (int64_t block = 0; block < blocks; ++block, source += 24, values += kBlock) {
    const float d = half_at(source), m = half_at(source + 2);
    const uint32_t high = high_bits_at(source + 4);
    const uint8_t* quants = source + 8;
    for (int i = 0; i < kHalf; ++i) {
      int low = (quants[i] & 15) | ((high >> i & 1) << 4);
      int upper = (quants[i] >> 4) | ((high >> (i + kHalf) & 1) << 4);
      values[i] = d * static_cast<float>(low) + m;
      values[i + kHalf] = d * static_cast<float>(upper) + m;
    }
  }
}

void dequantise_q8_0(const uint8_t* source, int64_t blocks, float* values) {
  for (int64_t block = 0; block < blocks; ++block, source += 34, values += kBlock) {
    const float d = half_at(source);
    const int8_t* quants = reinterpret_cast<const int8_t*>(source + 2);
    for (int i = 0; i < kBlock; ++i) values[i] = d * static_cast<float>(quants[i]);
  }
}

}  // namespace forge
