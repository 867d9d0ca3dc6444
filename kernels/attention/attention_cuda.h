#pragma once
// Attention over packed sequences on a GPU: attention_torch.h on the current device, by the kernel that
// attention_choice.h names. Throws an Error where it names none.
#include "kernels/attention/attention_args.h"
#include "kernels/device/launch.h"

namespace forge {

void attention_forward_cuda(const AttentionForward& args, CudaStream stream);
void attention_backward_cuda(const AttentionBackward& args, CudaStream stream);

}  // namespace forge
