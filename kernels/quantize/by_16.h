#pragma once
// Blocks of sixteen rows of a weight side by side: a product reads a vector for all of them, whose lanes are sixteen results, and adds up
// no lanes. No more bytes than before. A block is of sixteen rows by 32 columns; blocks of the same rows lie one behind the other.
//
//   q8_0_by_16   sixteen half-precision d, one a row; then for columns 0 and 1, 2 and 3, … both codes of each row
//   q4_0_by_16   sixteen d; then four vectors of 32 words: word 2r + p of vector v has the codes, less 8, of row r and columns 8v + p,
//                8v + 2 + p, 8v + 4 + p and 8v + 6 + p, from the lowest four bits on
//
//   if (auto coding = coding_by_16(BlockCoding::q4_0, rows)) lay_by_16(*coding, rows, columns, file, memory);
#include <cstdint>
#include <optional>

#include "kernels/quantize/quantize_args.h"

namespace forge {

constexpr int64_t kRowsSideBySide = 16;

// Of a block of sixteen rows.
constexpr int64_t bytes_by_16(BlockCoding coding) { return kRowsSideBySide * (coding == BlockCoding::q8_0_by_16 ? 34 : 18); }

inline bool by_16(BlockCoding coding) { return coding >= BlockCoding::q8_0_by_16; }

// How a weight of that coding lies side by side; nothing where it cannot.
std::optional<BlockCoding> coding_by_16(BlockCoding stored, int64_t rows);

// From rows of blocks as a file has them. [rows, columns]
void lay_by_16(BlockCoding coding, int64_t rows, int64_t columns, const uint8_t* from, uint8_t* to);

}  // namespace forge
