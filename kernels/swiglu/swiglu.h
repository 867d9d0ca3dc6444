#pragma once
// The gated activation of an MLP (Shazeer, 2020): f(gate) · up, f being silu (Llama) or gelu by
// tanh (Gemma).
#include <ATen/core/Tensor.h>

#include "kernels/swiglu/swiglu_args.h"

namespace forge {

// gate, up [tokens, intermediate] → [tokens, intermediate]. Differentiable in both.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up, GateFunction function = GateFunction::silu);

// The clamped activation of gpt-oss, of pairs [tokens, 2 · width]: columns 2i are gates, columns 2i
// + 1 the values that they gate. g = min(gate, limit), u = clamp(up, −limit, limit) → (u + 1) · g
// σ(alpha g), [tokens, width]. Differentiable.
at::Tensor clamped_swiglu(const at::Tensor& pairs, double limit, double alpha);

}  // namespace forge
