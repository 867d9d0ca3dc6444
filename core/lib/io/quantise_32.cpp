// The block types of 32 elements. Low nibbles are elements 0-15, high nibbles 16-31.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/lib/io/encode.h"
#include "core/lib/io/quantise.h"

namespace forge {
namespace {

constexpr int kBlock = 32, kHalf = 16;

float inverse(float scale) { return scale != 0 ? 1.0f / scale : 0.0f; }

// Packs the nibbles of 32 codes, and their fifth bits as one word. Returns that word.
uint32_t pack(const int (&codes)[kBlock], uint8_t* nibbles) {
  uint32_t high = 0;
  for (int i = 0; i < kHalf; ++i)
    nibbles[i] = static_cast<uint8_t>((codes[i] & 15) | (codes[i + kHalf] & 15) << 4);
  for (int i = 0; i < kBlock; ++i) high |= static_cast<uint32_t>(codes[i] >> 4 & 1) << i;
  return high;
}

}  // namespace

float extreme(const float* values, int count) {
  float chosen = 0;
  for (int i = 0; i < count; ++i)
    if (std::fabs(values[i]) > std::fabs(chosen)) chosen = values[i];
  return chosen;
}

void quantise_q4_0(const float* values, int64_t blocks, uint8_t* destination) {
  for (int64_t block = 0; block < blocks; ++block, values += kBlock, destination += 18) {
    const float d = extreme(values, kBlock) / -8, id = inverse(d);
    int codes[kBlock];
    for (int i = 0; i < kBlock; ++i) codes[i] = std::min(15, static_cast<int>(values[i] * id + 8.5f));
    put_half(d, destination);
    pack(codes, destination + 2);
  }
}

void quantise_q5_0(const float* values, int64_t blocks, uint8_t* destination) {
  for (int64_t block = 0; block < blocks; ++block, values += kBlock, destination += 22) {
    const float d = extreme(values, kBlock) / -16, id = inverse(d);
    int codes[kBlock];
    for (int i = 0; i < kBlock; ++i) codes[i] = std::min(31, static_cast<int>(values[i] * id + 16.5f));
    put_half(d, destination);
    const uint32_t high = pack(codes, destination + 6);
    std::memcpy(destination + 2, &high, 4);
  }
}

void quantise_q5_1(const float* values, int64_t blocks, uint8_t* destination) {
  for (int64_t block = 0; block < blocks; ++block, values += kBlock, destination += 24) {
    const auto [lowest, highest] = std::minmax_element(values, values + kBlock);
    const float minimum = *lowest, d = (*highest - minimum) / 31, id = inverse(d);
    int codes[kBlock];
    for (int i = 0; i < kBlock; ++i) codes[i] = static_cast<int>((values[i] - minimum) * id + 0.5f);
    put_half(d, destination);
    put_half(minimum, destination + 2);
    const uint32_t high = pack(codes, destination + 8);
    std::memcpy(destination + 4, &high, 4);
  }
}

void quantise_q8_0(const float* values, int64_t blocks, uint8_t* destination) {
  for (int64_t block = 0; block < blocks; ++block, values += kBlock, destination += 34) {
    const float d = std::fabs(extreme(values, kBlock)) / 127, id = inverse(d);
    put_half(d, destination);
    for (int i = 0; i < kBlock; ++i)
      destination[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(std::roundf(values[i] * id)));
  }
}

}  // namespace forge
