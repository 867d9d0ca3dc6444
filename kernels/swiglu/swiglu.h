#pragma once
// The gated activation of an MLP (Shazeer, 2020): f(gate) · up, f being silu (Llama) or gelu by tanh (Gemma).
#include <ATen/core/Tensor.h>

#include "kernels/swiglu/swiglu_args.h"

namespace forge {

// gate, up [tokens, intermediate] → [tokens, intermediate]. Differentiable in both.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up, GateFunction function = GateFunction::silu);

}  // namespace forge
