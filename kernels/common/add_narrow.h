#pragma once
#include <ATen/core/Tensor.h>

namespace forge {

// sum += narrow, of one shape and contiguous: fp32 and a 16-bit type. LibTorch's add_ on a CPU
// would first make an fp32 copy of `narrow`, which for the gradient of a head is as large as the
// head.
void add_narrow(at::Tensor& sum, const at::Tensor& narrow);

}  // namespace forge
