#pragma once
// CPU stand-ins for LibTorch's efficient attention, so that attention_torch.cpp runs on a machine
// without a GPU.
//
// They are registered for the dispatcher's CPU key, where 2.11 has none, and check the demands of
// the CUDA kernels on callers: types, shapes, alignment, layout of lse and its padding. They test
// the calls, not the kernels: only a GPU can show the kernels' results and accuracy
// (docs/gpu-backlog.md).
#include <vector>

#include "tests/kernels/backend.h"

namespace forge::kernel_test {

// Returns attention_torch.h over the stand-ins.
std::vector<Backend> attention_backends();

}  // namespace forge::kernel_test
