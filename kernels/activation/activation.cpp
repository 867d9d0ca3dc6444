#include "kernels/activation/activation.h"

#include <ATen/ATen.h>

namespace forge {

at::Tensor activation(const at::Tensor& x, Activation function, double limit) {
  if (function == Activation::relu2) return at::relu(x).square();
  if (function == Activation::clamp) return at::clamp(x, -limit, limit);
  return at::gelu(x, function == Activation::gelu ? "none" : "tanh");
}

}  // namespace forge
