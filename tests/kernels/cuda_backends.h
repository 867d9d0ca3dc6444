#pragma once
// The CUDA launchers as backends. Two twins are linked: the emulator's, one backend for each order of the
// warps, and the GPU's.
#include <vector>

#include "tests/kernels/backend.h"

namespace forge::kernel_test {

std::vector<Backend> cuda_backends();

}  // namespace forge::kernel_test
