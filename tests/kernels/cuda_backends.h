#pragma once
// The CUDA launchers as backends. There are two versions: the emulator's and the GPU's.
#include <vector>

#include "tests/kernels/backend.h"

namespace forge::kernel_test {

// Returns the emulator's backends: one for each order of the warps.
std::vector<Backend> cuda_backends();
// Returns attention_flash.h over the emulator's launchers, which report the accesses of the
// kernels' launchers. The GPU's version is among its cuda_backends().
std::vector<Backend> flash_backends();

}  // namespace forge::kernel_test
