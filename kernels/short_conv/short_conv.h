#pragma once
// Short causal convolutions of each channel on tensors (short_conv_args.h has the formulas),
// differentiable.
#include <ATen/core/Tensor.h>

#include <vector>

namespace forge {

// x [tokens, channels], weight [channels, 1, width], bias [channels] or undefined. `before`, if
// given, holds the width − 1 rows before each text's first one; otherwise they are zeros.
at::Tensor short_conv(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      bool silu, const std::vector<int32_t>& cu_seqlens,
                      const std::vector<at::Tensor>* before = nullptr);

}  // namespace forge
