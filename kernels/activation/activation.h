#pragma once
// A function of each number by itself: the activation of an MLP without a gate, or a bound.
#include <ATen/core/Tensor.h>

#include "kernels/activation/activation_args.h"

namespace forge {

// x [tokens, width] → like x. `limit`: of clamp. Differentiable.
at::Tensor activation(const at::Tensor& x, Activation function, double limit = 0);

}  // namespace forge
