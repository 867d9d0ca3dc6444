#include "kernels/swiglu/swiglu.h"

#include <ATen/ATen.h>

namespace forge {

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) { return at::silu(gate) * up; }

}  // namespace forge
