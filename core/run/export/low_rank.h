#pragma once
// The arithmetic of a merge on plain memory.
#include <cstdint>

namespace forge {

// The factors of one adapted weight, fp32: W [out, in] + scale · B [out, rank] A [rank, in];
// `magnitude` [out] for DoRA, else null.
struct LowRank {
  const float* a = nullptr;
  const float* b = nullptr;
  const float* magnitude = nullptr;
  int64_t rank = 0, columns = 0;
  double scale = 1;
};

// Adds the product to rows [first, first + rows) of a weight, which begin at `values`, on all
// cores. Sums over the rank in order, in fp32.
void add_low_rank(const LowRank& factors, int64_t first, int64_t rows, float* values);

}  // namespace forge
