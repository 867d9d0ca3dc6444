#pragma once
// The turns in which LibTorch's efficient attention computes a micro-batch, and the memory that its
// backward takes.
//
// CUTLASS's kernels have sums and lse of each sequence and head in memory, as long as the longest
// sequence of the call: beside a text of 2,000 tokens one of 60 takes as much. So a call gets
// consecutive sequences whose rows, each as many as the longest has, are no more than the
// micro-batch's tokens (at least kFewestTurnRows).
#include <cstdint>
#include <vector>

#include "kernels/attention/attention_args.h"

namespace forge {

constexpr int64_t kFewestTurnRows = 1024;  // so that short texts are not many calls

// Returns the rows of a block of the backward's kernel: 64 or 128 queries.
int64_t attention_block(const AttentionShape& shape, int64_t capability);

// Returns the turns of a micro-batch for kernels of such blocks; `cu_seqlens` is in the host's
// memory. Empty if it is one turn.
std::vector<AttentionTurn> attention_turns(const std::vector<int32_t>& cu_seqlens, int64_t block,
                                           int64_t fewest_rows = kFewestTurnRows);

// Heads of CUTLASS's kernels begin at 16 bytes: returns the head_dim with zeros up to that.
int64_t padded_head_dim(const AttentionShape& shape);

// Returns the most bytes that LibTorch allocates for the backward of a micro-batch, whose forward
// takes less. `shape.tokens`, `longest` and `sequences` are the most of a micro-batch.
int64_t efficient_attention_bytes(const AttentionShape& shape, int64_t capability);

}  // namespace forge
