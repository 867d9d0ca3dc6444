#pragma once
// Root mean square normalisation (Zhang & Sennrich, 2019): y = x / sqrt(mean(x²) + eps) · weight.
#include <ATen/core/Tensor.h>

namespace forge {

// x [tokens, hidden], weight [hidden] → [tokens, hidden] in x's type. Statistics are fp32; the normalised value is
// rounded to x's type before the weight multiplies it, as transformers does. Differentiable in x and weight.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

}  // namespace forge
