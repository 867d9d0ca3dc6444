#pragma once
// Chooses the attention kernel, LibTorch 2.11's or forge's own, that computes packed sequences on a
// GPU. The choice is a pure function, so a plan can name it beforehand.
//
//   AttentionChoice choice = choose_attention({.capability = 75, .type = Element::f16, …}, /*backward=*/false);
//   choice.kernel == AttentionKernel::efficient;   choice.reason == "flash attention needs compute capability 8.0"
//
// flash: FlashAttention 2, 16-bit types, grouped queries, rows that begin at 16 bytes. efficient:
// CUTLASS, every type, keys and values repeated for each query head. own: attention_own.cuh, for a
// cap on the scores, windows and sinks. cuDNN's is not among them: its backward over packed
// sequences sizes an accumulator wrongly in 2.11 and writes outside it (torch's own varlen.py does
// without it, too). All have the same lse, so a forward by one can have a backward by another.
#include <cstdint>

#include "kernels/common/element.h"

namespace forge {

enum class AttentionKernel { none, flash, efficient, own };

constexpr int64_t kOwnAttentionHeadDim = 256;  // the largest of forge's own kernels

struct AttentionProblem {
  int64_t capability = 0;  // 86 is 8.6
  Element type = Element::f32;
  int64_t head_dim = 0, heads = 0, sequences = 0, tokens = 0;
  int64_t longest = 0, window = 0;  // a window that the longest sequence fits in hides nothing
  float softcap = 0;
  bool sinks = false;
};

struct AttentionChoice {
  AttentionKernel kernel = AttentionKernel::none;
  const char* reason = "";
};

AttentionChoice choose_attention(const AttentionProblem& problem, bool backward);

}  // namespace forge
