#include "kernels/rms_norm/rms_norm.h"

#include <ATen/ATen.h>

namespace forge {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, double weight_offset,
                    std::optional<c10::ScalarType> type) {
  const c10::ScalarType narrow = type.value_or(x.scalar_type());
  at::Tensor wide = x.to(at::kFloat);
  at::Tensor inverse = wide.square().mean(-1, /*keepdim=*/true).add_(eps).rsqrt();  // [tokens, 1]
  if (weight_offset != 0)
    return (wide * inverse * (weight.to(at::kFloat) + weight_offset)).to(narrow);
  return (wide * inverse).to(narrow) * weight;
}

}  // namespace forge
