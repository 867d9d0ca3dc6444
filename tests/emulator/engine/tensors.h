#pragma once
// LibTorch's tensors as device memory: in the emulated engine they lie in the host's, and kernels may be handed any of them.
#include "tests/emulator/memory.h"

namespace forge::emulator {

// The tensor that `pointer` lies in, as an allocation from now until LibTorch frees it; null: in none. What LibTorch computes
// itself is not seen: it counts as written.
Allocation* adopt_tensor(const void* pointer);
// From now on tensors are known.
void watch_tensors();

}  // namespace forge::emulator
