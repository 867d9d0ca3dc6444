#include "kernels/swiglu/swiglu.h"

#include <ATen/ATen.h>

namespace forge {

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up, GateFunction function) {
  return (function == GateFunction::silu ? at::silu(gate) : at::gelu(gate, "tanh")) * up;
}

at::Tensor clamped_swiglu(const at::Tensor& pairs, double limit, double alpha) {
  const at::Tensor both = pairs.unflatten(1, {-1, 2});
  const at::Tensor gate = both.select(2, 0).clamp_max(limit), up = both.select(2, 1).clamp(-limit, limit);
  return (up + 1) * (gate * at::sigmoid(gate * alpha));
}

}  // namespace forge
