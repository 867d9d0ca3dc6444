#include "kernels/swiglu/swiglu.h"

#include <ATen/ATen.h>

namespace forge {

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up, GateFunction function) {
  return (function == GateFunction::silu ? at::silu(gate) : at::gelu(gate, "tanh")) * up;
}

}  // namespace forge
