#pragma once
// Root mean square normalisation (Zhang & Sennrich, 2019): y = x / sqrt(mean(x²) + eps) · (weight +
// weight_offset).
#include <ATen/core/Tensor.h>

#include <optional>

namespace forge {

// x [tokens, hidden], weight [hidden] → [tokens, hidden] in `type`, else in x's. Statistics are
// fp32; the normalised value is rounded to that type before the weight multiplies it, and with an
// offset (Gemma: 1) after it, as transformers does. Differentiable in x and weight.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, double weight_offset = 0,
                    std::optional<c10::ScalarType> type = {});

}  // namespace forge
