#pragma once
// Layer normalisation (Ba et al., 2016):
// y = (x − mean(x)) / sqrt(var(x) + eps) · (weight + weight_offset) + bias.
#include <ATen/core/Tensor.h>

#include <optional>

namespace forge {

// x [tokens, hidden], weight and bias [hidden] → [tokens, hidden] in `type`, else in x's, all in
// fp32 in between. Without a weight the factor is 1, an undefined bias is none. Differentiable in
// x, weight and bias.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps,
                      std::optional<c10::ScalarType> type = {}, double weight_offset = 0);

}  // namespace forge
