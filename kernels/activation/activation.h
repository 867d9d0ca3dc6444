#pragma once
// The activation of an MLP without a gate: gelu, exact or by tanh.
#include <ATen/core/Tensor.h>

#include "kernels/activation/activation_args.h"

namespace forge {

// x [tokens, intermediate] → like x. Differentiable.
at::Tensor activation(const at::Tensor& x, Activation function);

}  // namespace forge
