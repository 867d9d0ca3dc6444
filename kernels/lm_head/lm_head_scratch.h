#pragma once
// Sizes of the head's buffers besides its operands, for the plan and for the head itself.
#include <algorithm>
#include <cstdint>

namespace forge {

// Positions taken at once. Twice as many make products quicker by 2 to 9 % (576 by 49,152, two
// threads of an Intel Xeon), a step of SmolLM2 by no more than its noise, and take as much memory
// again: with a vocabulary of 49,152 logits of 256 positions are 48 MiB in fp32, 24 in 16 bits.
constexpr int64_t kHeadChunk = 256;

// Positions whose capped logits are kept at once while their gradient takes their place.
constexpr int64_t kCapRows = 32;

// Rows of logits in memory at once for a chunk of positions. `product`: in the compute type, the
// results of the product and then their gradient; a CPU's kernel (logits_args.h) needs no others.
// `wide`: in fp32, for LibTorch if the compute type is another. `capped`: for the gradient under a
// cap.
struct HeadRowCounts {
  int64_t product = 0, wide = 0, capped = 0;
};
inline HeadRowCounts head_rows(int64_t chunk, bool narrow, bool capped, bool gpu) {
  if (!gpu) return {.product = chunk};
  return {chunk, narrow ? chunk : 0, capped ? std::min(kCapRows, chunk) : 0};
}

inline int64_t head_scratch_bytes(int64_t chunk, int64_t vocab, int64_t element_bytes, bool capped, bool gpu) {
  const HeadRowCounts rows = head_rows(chunk, element_bytes < 4, capped, gpu);
  return vocab * (4 * (rows.wide + rows.capped) + element_bytes * rows.product);
}

}  // namespace forge
