#pragma once
// The gated activation of Llama's MLP (Shazeer, 2020): silu(gate) · up.
#include <ATen/core/Tensor.h>

namespace forge {

// gate, up [tokens, intermediate] → [tokens, intermediate]. Differentiable in both.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

}  // namespace forge
