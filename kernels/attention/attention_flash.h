#pragma once
// The contract of attention_args.h by LibTorch's launchers of FlashAttention 2: in 16-bit types,
// results straight into the caller's rows, scratch in Args::workspace. Nothing is allocated, so the
// calls may be captured.
//
// LibTorch's entry points allocate results and scratch; the launchers below them are exported and
// take any strides (flash_params.h). A deterministic backward has a sum of d q of its own for each
// block of keys that runs beside others: at 4,096 tokens, 32 heads of 128 and 132 multiprocessors
// five times 67 MB. LibTorch's efficient kernel is deterministic too, but repeats keys and values,
// copies, and gathers lse by a sort: three times the launches of a layer over the hollow GPU.
#include <algorithm>
#include <utility>

#include "kernels/attention/attention_args.h"
#include "kernels/device/launch.h"

namespace forge {

// True if the kernels can read and write these operands: rows begin at 16 bytes.
bool flash_takes(const AttentionForward& args);
bool flash_takes(const AttentionBackward& args);

void attention_forward_flash(const AttentionForward& args, CudaStream stream);
void attention_backward_flash(const AttentionBackward& args, CudaStream stream);

// Workspace of the backward. It has 128 spare rows for each sequence. The gradients are therefore
// computed for a limited number of sequences at a time: so many that the spare rows are half of the
// others, but at least eight.
struct FlashSpace {
  int64_t turn = 0;  // sequences
  // Offsets in bytes into the workspace. d_k and d_v, which hold the gradients of every query head,
  // are there for grouped queries alone.
  int64_t d_q_sums = 0, dots = 0, d_k = 0, d_v = 0;
  int64_t bytes = 0;
};

inline int64_t flash_head_dim(int64_t head_dim) {
  const int64_t unit = head_dim <= 128 ? 32 : 64;
  return (head_dim + unit - 1) / unit * unit;
}

// Size of the backward's sums of d q for `sequences` at once. Blocks of keys add to the sums in the
// order in which they come. A deterministic backward runs only as many of a sequence's blocks
// beside each other as fill the GPU, each with sums of its own, which are added up in their order
// (FlashAttention 2's launcher and mha_varlen_bwd).
struct FlashSums {
  int64_t splits = 1, stride = 0;  // stride: fp32 numbers from one split's to the next one's

  int64_t bytes() const { return 4 * splits * stride; }
};
inline FlashSums flash_sums(const AttentionShape& s, int64_t sequences) {
  const int64_t grids = sequences * s.heads, rows = s.tokens + 128 * sequences;
  return {s.deterministic ? (s.multiprocessors + grids - 1) / grids : 1, rows * s.heads * flash_head_dim(s.head_dim)};
}

// Returns the workspace for as many sequences as a turn may have, so that it depends on the tokens
// alone.
inline FlashSpace flash_space(const AttentionShape& s) {
  FlashSpace space{.turn = std::max<int64_t>(8, s.tokens / 256)};
  const int64_t rows = s.tokens + 128 * space.turn;
  int64_t sums = 0;
  for (int64_t sequences = 1; sequences <= space.turn; ++sequences) sums = std::max(sums, flash_sums(s, sequences).bytes());
  const auto take = [&](int64_t bytes) {
    return std::exchange(space.bytes, space.bytes + (bytes + 255) / 256 * 256);
  };
  space.d_q_sums = take(sums);
  space.dots = take(4 * rows * s.heads);
  if (s.heads == s.kv_heads) return space;
  space.d_k = take(2 * s.tokens * s.heads * s.head_dim);
  space.d_v = take(2 * s.tokens * s.heads * s.head_dim);
  return space;
}

// Bytes of an lse buffer, needed if the caller wants no lse.
inline int64_t attention_forward_flash_workspace(const AttentionForward& args) {
  return args.lse ? 0 : 4 * args.shape.heads * args.shape.tokens;
}
inline int64_t attention_backward_flash_workspace(const AttentionBackward& args) { return flash_space(args.shape).bytes; }

}  // namespace forge
