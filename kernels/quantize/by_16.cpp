#include "kernels/quantize/by_16.h"

#include <cstring>

namespace forge {
namespace {

constexpr int64_t kScales = 2 * kRowsSideBySide;  // bytes of them

// Writes the codes of a block. `codes` begins after the scales in both layouts. Row r's block is at
// from + r * stride.
void lay_bytes(const uint8_t* from, int64_t stride, uint8_t* codes) {
  for (int64_t r = 0; r < kRowsSideBySide; ++r)
    for (int64_t k = 0; k < 32; ++k) codes[k / 2 * kScales + 2 * r + k % 2] = from[r * stride + 2 + k];
}

// Writes nibbles. In the source the low half of byte k is column k, the high half column k + 16.
void lay_nibbles(const uint8_t* from, int64_t stride, uint8_t* codes) {
  for (int64_t r = 0; r < kRowsSideBySide; ++r) {
    const uint8_t* bytes = from + r * stride + 2;
    const auto code = [&](int64_t k) { return ((k < 16 ? bytes[k] : bytes[k - 16] >> 4) & 15) ^ 8; };
    for (int64_t v = 0; v < 4; ++v)
      for (int64_t p = 0; p < 2; ++p) {
        const int64_t k = 8 * v + p;
        uint8_t* word = codes + 64 * v + 2 * (2 * r + p);
        word[0] = static_cast<uint8_t>(code(k) | code(k + 2) << 4);
        word[1] = static_cast<uint8_t>(code(k + 4) | code(k + 6) << 4);
      }
  }
}

}  // namespace

std::optional<BlockCoding> coding_by_16(BlockCoding stored, int64_t rows) {
  if (rows % kRowsSideBySide != 0) return {};
  if (stored == BlockCoding::q8_0) return BlockCoding::q8_0_by_16;
  if (stored == BlockCoding::q4_0) return BlockCoding::q4_0_by_16;
  return {};
}

void lay_by_16(BlockCoding coding, int64_t rows, int64_t columns, const uint8_t* from, uint8_t* to) {
  const bool bytes = coding == BlockCoding::q8_0_by_16;
  const int64_t block = bytes_by_16(coding) / kRowsSideBySide, stride = columns / 32 * block;
  for (int64_t row = 0; row < rows; row += kRowsSideBySide)
    for (int64_t k = 0; k < columns; k += 32) {
      const uint8_t* blocks = from + row * stride + k / 32 * block;
      for (int64_t r = 0; r < kRowsSideBySide; ++r, to += 2) std::memcpy(to, blocks + r * stride, 2);
      bytes ? lay_bytes(blocks, stride, to) : lay_nibbles(blocks, stride, to);
      to += kRowsSideBySide * (block - 2);
    }
}

}  // namespace forge
