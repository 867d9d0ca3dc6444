#pragma once
// Rotary position embedding (Su et al., RoFormer, 2021) in the half-split layout of Hugging Face checkpoints: feature
// i turns together with feature i + head_dim / 2.
#include <ATen/core/Tensor.h>

namespace forge {

// x [tokens, heads, head_dim]; cos, sin [tokens, rotary_dim / 2] in x's type → like x. Features past rotary_dim pass
// through. Differentiable in x.
at::Tensor rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

}  // namespace forge
