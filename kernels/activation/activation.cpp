#include "kernels/activation/activation.h"

#include <ATen/ATen.h>

namespace forge {

at::Tensor activation(const at::Tensor& x, Activation function) {
  return at::gelu(x, function == Activation::gelu ? "none" : "tanh");
}

}  // namespace forge
