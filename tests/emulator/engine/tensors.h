#pragma once
// LibTorch's tensors as device memory: in the emulated engine they are in the host's memory, and
// kernels may be handed any of them.
#include "tests/emulator/memory.h"

namespace forge::emulator {

// Returns the tensor that contains `pointer`, as an allocation until LibTorch frees it; null if
// there is none. LibTorch's own computations are not seen: a tensor counts as written.
Allocation* adopt_tensor(const void* pointer);
// Starts recording tensors.
void watch_tensors();

}  // namespace forge::emulator
