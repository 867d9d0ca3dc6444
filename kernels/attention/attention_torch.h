#pragma once
// The contract of attention_args.h by LibTorch's entry points at::_efficient_attention_forward and
// _backward, with cu_seqlens and a causal mask: every type and every head_dim, on GPUs that flash
// attention does not run on (attention_choice.h).
//
// Pointers, cu_seqlens included, are to memory of `device`; shape.tokens and shape.longest are
// needed, nothing is read back. The entry points allocate their results, which are copied to the
// caller's buffers: one pass over out and lse forward, over d_q, d_k and d_v backward. Operands are
// copied beforehand if the kernels cannot read them: rows or heads that do not begin at 16 bytes,
// heads that are no multiple of 16 bytes (padded with zeros), and keys and values of grouped
// queries. One call for each of shape.turns (attention_turns.h). Throws LibTorch's errors.
#include <c10/core/Device.h>

#include "kernels/attention/attention_args.h"

namespace forge {

void attention_forward_torch(const AttentionForward& args, c10::Device device);
void attention_backward_torch(const AttentionBackward& args, c10::Device device);

}  // namespace forge
