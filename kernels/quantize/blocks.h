#pragma once
// Block-wise quantisation on plain memory; the formats are described in quantize.h. No torch here.
#include <array>
#include <cstdint>
#include <vector>

#include "kernels/quantize/books.h"

namespace forge {

using EightBitBook = std::array<float, 256>;

const FourBitBook& nf4_book();
const FourBitBook& fp4_book();
// Returns the positive values of a dynamic map of seven decades, from 1e-6 to 1, ascending: the
// lowest decade has `parts` of them, each other one twice as many as the one below. They are the
// middles of as many equal parts of [0.1, 1] times the decade, rounded where torch.linspace and its
// float32 arithmetic round.
std::vector<float> dynamic_values(int parts);
// The signed dynamic map, ascending.
const EightBitBook& dynamic_book();

// The codes of a book's entries in ascending order, and the limits half way between neighbours.
struct FourBitLimits {
  std::array<float, 15> limits;
  std::array<uint8_t, 16> ranked;
};
FourBitLimits four_bit_limits(const FourBitBook& book);

// Quantises `count` values in blocks of `block` → ceil(count / block) absmax. In 4 bits `codes`
// holds (count + 1) / 2 bytes, the high half first, and `block` is even. A range of whole blocks
// may be computed apart from the rest.
void quantize_4bit(const FourBitBook& book, const float* values, int64_t count, int64_t block, uint8_t* codes,
                   float* absmax);
void quantize_8bit(const float* values, int64_t count, int64_t block, uint8_t* codes, float* absmax);

// Turns codes and absmax into values: T is float, or uint16_t for the bits of the fp32 product
// rounded to bf16, to nearest even.
template <class T>
void dequantize_4bit(const FourBitBook& book, const uint8_t* codes, const float* absmax, int64_t count,
                     int64_t block, T* values);
template <class T>
void dequantize_8bit(const uint8_t* codes, const float* absmax, int64_t count, int64_t block, T* values);

}  // namespace forge
