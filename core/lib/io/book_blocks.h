#pragma once
// A matrix that a file holds in 4-bit codes of a book, block by block in memory order
// (bitsandbytes). kernels/quantize/quantize.h has the books and the arithmetic.
#include <cstdint>
#include <string_view>
#include <vector>

namespace forge {

struct BookBlocks {
  bool nf4 = true;            // false: fp4
  int64_t block = 64;         // values that share an absmax
  std::string_view codes;     // [(values + 1) / 2], two a byte, the first in the high half
  std::vector<float> absmax;  // [blocks], decoded if the file holds it in codes

  // The file's codes of absmax; empty if it holds absmax itself:
  // absmax = map[code] * scale[block / nested_block] + mean.
  std::string_view nested_codes;
  int64_t nested_block = 0;
  std::vector<float> nested_map, nested_scale;  // [256], [ceil(blocks / nested_block)]
  float nested_mean = 0;
  bool nested() const { return !nested_codes.empty(); }
};

}  // namespace forge
