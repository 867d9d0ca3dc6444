#pragma once
// The CUDA launchers as backends. Two twins are linked: the emulator's and the GPU's.
#include <vector>

#include "tests/kernels/backend.h"

namespace forge::kernel_test {

// The emulator's: one backend for each order of the warps.
std::vector<Backend> cuda_backends();
// attention_flash.h over the emulator's launchers, which say what the kernels' do. The GPU's is among its cuda_backends().
std::vector<Backend> flash_backends();

}  // namespace forge::kernel_test
