#pragma once
// Number of stretches into which column_sums.cuh cuts the rows, and bytes of their fp32 sums. No
// torch, no CUDA headers.
#include <algorithm>
#include <cstdint>

namespace forge {

// 128 rows keep a block's eight warps busy for sixteen loads each; 64 stretches of a narrow row's
// few blocks fill any GPU.
inline int64_t column_stretches(int64_t rows) { return std::clamp<int64_t>((rows + 127) / 128, 1, 64); }

inline int64_t column_sums_bytes(int64_t rows, int64_t width, int64_t sums) {
  return 4 * column_stretches(rows) * width * sums;
}

}  // namespace forge
