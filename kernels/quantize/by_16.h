#pragma once
// A layout of quantised weights with blocks of sixteen rows side by side: a product reads a vector
// for all of them, whose lanes are sixteen results, and need not add up lanes. The weight has no
// more bytes than before. A block has sixteen rows by 32 columns; blocks of the same rows are
// consecutive.
//
//   q8_0_by_16   sixteen half-precision d, one a row; then for columns 0 and 1, 2 and 3, … both
//                codes of each row
//   q4_0_by_16   sixteen d; then four vectors of 32 words: word 2r + p of vector v has the codes,
//                less 8, of row r and columns 8v + p, 8v + 2 + p, 8v + 4 + p and 8v + 6 + p, from
//                the lowest four bits on
//
//   if (auto coding = coding_by_16(BlockCoding::q4_0, rows)) lay_by_16(*coding, rows, columns, file, memory);
#include <cstdint>
#include <optional>

#include "kernels/quantize/quantize_args.h"

namespace forge {

constexpr int64_t kRowsSideBySide = 16;

// Bytes of a block of sixteen rows.
constexpr int64_t bytes_by_16(BlockCoding coding) { return kRowsSideBySide * (coding == BlockCoding::q8_0_by_16 ? 34 : 18); }

inline bool by_16(BlockCoding coding) { return coding >= BlockCoding::q8_0_by_16; }

// Returns the coding of such a weight with rows side by side; nothing if there is none.
std::optional<BlockCoding> coding_by_16(BlockCoding stored, int64_t rows);

// Writes the layout from rows of blocks as a file has them. [rows, columns]
void lay_by_16(BlockCoding coding, int64_t rows, int64_t columns, const uint8_t* from, uint8_t* to);

}  // namespace forge
