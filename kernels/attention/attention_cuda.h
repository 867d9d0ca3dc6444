#pragma once
// Attention over packed sequences on a GPU: attention_torch.h on the current device or attention_own.h, as
// attention_choice.h says. Throws an Error where it names no kernel.
#include "kernels/attention/attention_own.h"

namespace forge {

void attention_forward_cuda(const AttentionForward& args, CudaStream stream);
void attention_backward_cuda(const AttentionBackward& args, CudaStream stream);
// Of our own kernels, wherever they may be the ones.
inline int64_t attention_backward_cuda_workspace(const AttentionBackward& args) {
  return args.shape.softcap != 0 || args.shape.window > 0 || args.shape.sinks
             ? attention_backward_own_workspace(args)
             : 0;
}

}  // namespace forge
