#pragma once
// The adapter part of linear layers on a GPU; formulas and shapes as in lora_args.h. Uses a
// library's products, with S and d S rounded to the type between them, like their factors; S itself
// stays fp32. A member's launches: two products forward and four backward, and in 16 bits a
// conversion of S in each; with dropout one pass over x in each, and one over d x.
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"
#include "kernels/lora/lora_work.h"

namespace forge {

inline int64_t lora_forward_cuda_workspace(const LoraForward& args) {
  return lora_cuda_space(args.group, false, nullptr).bytes;
}
void lora_forward_cuda(const LoraForward& args, CudaStream stream);
inline int64_t lora_backward_cuda_workspace(const LoraBackward& args) {
  return lora_cuda_space(args.group, true, nullptr).bytes;
}
void lora_backward_cuda(const LoraBackward& args, CudaStream stream);

namespace lora_work {

template <class Args>
GpuLaunches listed(const Args& args) {
  GpuLaunches list;
  each_work(args, [&](const auto& work) { list.push_back(launches(work).front()); });
  return list;
}

}  // namespace lora_work

inline GpuLaunches launches(const LoraForward& args) { return lora_work::listed(args); }
inline GpuLaunches launches(const LoraBackward& args) { return lora_work::listed(args); }

}  // namespace forge
