#include "kernels/rms_norm/rms_norm.h"

#include <ATen/ATen.h>

namespace forge {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, double weight_offset) {
  at::Tensor wide = x.to(at::kFloat);
  at::Tensor inverse = wide.square().mean(-1, /*keepdim=*/true).add_(eps).rsqrt();  // [tokens, 1]
  if (weight_offset != 0)
    return (wide * inverse * (weight.to(at::kFloat) + weight_offset)).to(x.scalar_type());
  return (wide * inverse).to(x.scalar_type()) * weight;
}

}  // namespace forge
