#pragma once
// What the head needs beside its operands, for those who plan it and for the head itself.
#include <algorithm>
#include <cstdint>

namespace forge {

// Positions whose capped logits are kept at once while their gradient takes their place.
constexpr int64_t kCapRows = 32;

// Logits of `rows` positions in fp32, and in a narrower compute type as the product takes and gives them.
inline int64_t head_scratch_bytes(int64_t rows, int64_t vocab, int64_t element_bytes, bool capped) {
  const int64_t narrow = element_bytes < 4 ? element_bytes : 0,
                cap_rows = capped ? std::min(kCapRows, rows) : 0;
  return vocab * (4 * (rows + cap_rows) + narrow * rows);
}

}  // namespace forge
