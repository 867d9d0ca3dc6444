#include "kernels/swiglu/swiglu.h"

#include <ATen/ATen.h>

namespace forge {

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up, GateFunction function) {
  // Autograd takes the slope of a sigmoid from its result, which is rounded in 16 bits.
  if (function == GateFunction::sigmoid && gate.scalar_type() != at::kDouble)
    return (at::sigmoid(gate.to(at::kFloat)) * up.to(at::kFloat)).to(gate.scalar_type());
  if (function == GateFunction::sigmoid) return at::sigmoid(gate) * up;
  if (function == GateFunction::product) return gate * up;
  return (function == GateFunction::silu ? at::silu(gate) : at::gelu(gate, "tanh")) * up;
}

at::Tensor clamped_swiglu(const at::Tensor& pairs, double limit, double alpha) {
  const at::Tensor both = pairs.unflatten(1, {-1, 2});
  const at::Tensor gate = both.select(2, 0).clamp_max(limit), up = both.select(2, 1).clamp(-limit, limit);
  return (up + 1) * (gate * at::sigmoid(gate * alpha));
}

}  // namespace forge
