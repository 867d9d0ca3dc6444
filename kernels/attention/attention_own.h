#pragma once
// Attention by forge's own kernels on a GPU, if LibTorch has none (choose_attention); formulas and
// shapes as in attention_args.h.
#include "kernels/attention/attention_args.h"
#include "kernels/attention/attention_choice.h"
#include "kernels/device/launch.h"

namespace forge {

void attention_forward_own(const AttentionForward& args, CudaStream stream);
void attention_backward_own(const AttentionBackward& args, CudaStream stream);
// Bytes for d out · out of each query and head.
inline int64_t attention_backward_own_workspace(const AttentionBackward& args) {
  return 4 * args.shape.tokens * args.shape.heads;
}

}  // namespace forge
