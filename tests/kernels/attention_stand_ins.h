#pragma once
// CPU stand-ins for LibTorch's efficient attention, so that attention_torch.cpp runs on a machine without a GPU.
//
// They are registered for the dispatcher's CPU key, where 2.11 has none, and hold the callers to what the CUDA
// kernels demand: types, shapes, alignment, layout of lse and its padding. They prove the wiring, not the
// kernels: what those compute, and how exactly, only a GPU can show (docs/gpu-backlog.md).
#include <vector>

#include "tests/kernels/backend.h"

namespace forge::kernel_test {

// attention_torch.h over the stand-ins.
std::vector<Backend> attention_backends();

}  // namespace forge::kernel_test
