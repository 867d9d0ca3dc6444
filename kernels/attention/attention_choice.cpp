#include "kernels/attention/attention_choice.h"

#include <algorithm>

#include "kernels/attention/attention_flash.h"

namespace forge {
namespace {

bool between(int64_t value, int64_t low, int64_t high) { return low <= value && value <= high; }

// True if flash attention's index overflows: its fp32 sums of d q, with a block of spare tokens for
// each sequence of a turn, are indexed with 32 bits.
bool flash_backward_overflows(const AttentionProblem& p) {
  const int64_t sequences = std::min(p.sequences, flash_space({.tokens = p.tokens}).turn);
  return (p.tokens + 128 * sequences) * p.heads * flash_head_dim(p.head_dim) >= int64_t{1} << 31;
}

}  // namespace

AttentionChoice choose_attention(const AttentionProblem& p, bool backward) {
  using enum AttentionKernel;
  if (p.capability < 50) return {none, "LibTorch has no attention kernel below compute capability 5.0"};
  if (p.softcap != 0 || p.sinks || (p.window > 0 && p.window < p.longest)) {
    if (p.head_dim > kOwnAttentionHeadDim)
      return {none, "forge's attention kernels for caps, sinks and windows have heads of at most 256"};
    if (p.softcap != 0) return {own, "LibTorch's kernels have no cap on the scores"};
    if (p.sinks) return {own, "LibTorch's kernels have no sinks"};
    return {own, "forge calls LibTorch's kernels without a window"};
  }
  if (p.type == Element::bf16 && p.capability < 80) return {none, "bf16 needs compute capability 8.0"};
  if (p.type == Element::f32) return {efficient, "flash attention has no fp32"};
  if (p.capability < 80) return {efficient, "flash attention needs compute capability 8.0"};
  if (p.head_dim > 256) return {efficient, "flash attention has heads of at most 256"};
  if (p.head_dim % 8 != 0) return {efficient, "flash attention has heads of a multiple of 8"};
  // These GPUs have less shared memory; LibTorch refuses these heads as well.
  if (between(p.head_dim, 193, 224) && (between(p.capability, 86, 89) || between(p.capability, 120, 121)))
    return {efficient, "flash attention has no backward for heads of 193 to 224 on this GPU"};
  if (backward && flash_backward_overflows(p))
    return {efficient, "flash attention's backward would overflow 32-bit indices"};
  return {flash, "16-bit type and compute capability 8.0 or more"};
}

}  // namespace forge
