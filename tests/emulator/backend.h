#pragma once
// Emulated CUDA as backends of the kernel cases, one for each order of the warps.
#include <vector>

#include "tests/kernels/backend.h"

namespace forge::kernel_test {

std::vector<Backend> emulated_backends();

}  // namespace forge::kernel_test
