#pragma once
// Attention over packed sequences on a GPU: attention_flash.h, attention_torch.h or attention_own.h
// on the current device, as attention_choice.h says. Throws an Error where it names no kernel.
#include <algorithm>

#include "kernels/attention/attention_choice.h"
#include "kernels/attention/attention_flash.h"
#include "kernels/attention/attention_own.h"
#include "kernels/device/launches.h"

namespace forge {

void attention_forward_cuda(const AttentionForward& args, CudaStream stream);
void attention_backward_cuda(const AttentionBackward& args, CudaStream stream);

// Returns the kernel for these operands on a GPU of that capability.
template <class Args>
AttentionChoice attention_choice_of(const Args& args, int64_t capability, bool backward) {
  const AttentionShape& s = args.shape;
  const AttentionChoice choice = choose_attention(
      {capability, s.type, s.head_dim, s.heads, s.sequences, s.tokens, s.longest, s.window, s.softcap, s.sinks != nullptr}, backward);
  if (choice.kernel != AttentionKernel::flash || flash_takes(args)) return choice;
  return {AttentionKernel::efficient, "flash attention reads rows that begin at 16 bytes"};
}

// The workspaces below are those of the kernel that needs most among the possible ones: the kernel
// depends on the GPU and, with a window, on each micro-batch's longest sequence. (An older GPU
// computes 16-bit types without flash attention and leaves its workspace unused.)
inline bool may_be_flash(const AttentionShape& s) {
  return s.type != Element::f32 && s.softcap == 0 && !s.sinks && s.head_dim <= 256 && s.head_dim % 8 == 0;
}
inline bool may_be_own(const AttentionShape& s) { return s.softcap != 0 || s.window > 0 || s.sinks; }

inline int64_t attention_forward_cuda_workspace(const AttentionForward& args) {
  return may_be_flash(args.shape) ? attention_forward_flash_workspace(args) : 0;
}
inline int64_t attention_backward_cuda_workspace(const AttentionBackward& args) {
  return std::max(may_be_flash(args.shape) ? attention_backward_flash_workspace(args) : 0,
                  may_be_own(args.shape) ? attention_backward_own_workspace(args) : 0);
}

// Return the launches on a GPU of that capability. A window counts as shorter than the texts.
GpuLaunches launches(const AttentionForward& args, int64_t capability);
GpuLaunches launches(const AttentionBackward& args, int64_t capability);

}  // namespace forge
