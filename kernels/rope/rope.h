#pragma once
// Rotary position embedding (Su et al., RoFormer, 2021): feature i turns together with feature i +
// rotary_dim / 2 (half_split), or feature 2i with feature 2i + 1 (interleaved).
#include <ATen/core/Tensor.h>

#include "kernels/rope/rope_args.h"

namespace forge {

// x [tokens, heads, head_dim]; cos, sin [tokens, rotary_dim / 2] in x's type → like x. Features
// past rotary_dim pass through. Differentiable in x.
at::Tensor rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                RopeLayout layout = RopeLayout::half_split);

}  // namespace forge
