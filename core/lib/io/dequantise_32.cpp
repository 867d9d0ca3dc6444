// Block types of 32 elements. Low nibbles are elements 0-15, high nibbles 16-31.
#include "core/lib/io/dequantise.h"

namespace forge {
namespace {

constexpr int kBlock = 32, kHalf = 16;

// d [2 bytes], with a minimum m [2], with a fifth bit the word of these bits [4], whose bit i
// belongs to element i; then the nibbles [16].
template <bool has_minimum, bool fifth_bit>
void dequantise(const uint8_t* source, int64_t blocks, float* values) {
  constexpr int kScales = has_minimum ? 4 : 2, kHead = fifth_bit ? kScales + 4 : kScales;
  constexpr int kBias = has_minimum ? 0 : fifth_bit ? 16 : 8;
  for (int64_t block = 0; block < blocks; ++block, source += kHead + kHalf, values += kBlock) {
    const float d = half_at(source), m = has_minimum ? half_at(source + 2) : 0;
    uint32_t high = 0;
    if constexpr (fifth_bit) std::memcpy(&high, source + kScales, 4);
    const auto value = [&](uint32_t nibble, int element) {
      const float x = d * static_cast<float>(static_cast<int>(nibble | (high >> element & 1) << 4) - kBias);
      return has_minimum ? x + m : x;  // −0 + 0 would be 0
    };
    const uint8_t* quants = source + kHead;
    for (int i = 0; i < kHalf; ++i) values[i] = value(quants[i] & 15, i);
    for (int i = 0; i < kHalf; ++i) values[i + kHalf] = value(quants[i] >> 4, i + kHalf);
  }
}

}  // namespace

void dequantise_q4_0(const uint8_t* source, int64_t blocks, float* values) {
  dequantise<false, false>(source, blocks, values);
}

void dequantise_q4_1(const uint8_t* source, int64_t blocks, float* values) {
  dequantise<true, false>(source, blocks, values);
}

void dequantise_q5_0(const uint8_t* source, int64_t blocks, float* values) {
  dequantise<false, true>(source, blocks, values);
}

void dequantise_q5_1(const uint8_t* source, int64_t blocks, float* values) {
  dequantise<true, true>(source, blocks, values);
}

void dequantise_q8_0(const uint8_t* source, int64_t blocks, float* values) {
  for (int64_t block = 0; block < blocks; ++block, source += 34, values += kBlock) {
    const float d = half_at(source);
    const int8_t* quants = reinterpret_cast<const int8_t*>(source + 2);
    for (int i = 0; i < kBlock; ++i) values[i] = d * static_cast<float>(quants[i]);
  }
}

void dequantise_mxfp4(const uint8_t* source, int64_t blocks, float* values) {
  for (int64_t block = 0; block < blocks; ++block, source += 17, values += kBlock) {
    const float d = half_of_e8m0(source[0]);
    for (int i = 0; i < kBlock / 2; ++i) {
      values[i] = d * kTwiceE2m1[source[1 + i] & 15];
      values[i + kBlock / 2] = d * kTwiceE2m1[source[1 + i] >> 4];
    }
  }
}

}  // namespace forge
