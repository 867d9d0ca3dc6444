#include "kernels/rms_norm/rms_norm.h"

#include <ATen/ATen.h>

namespace forge {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  at::Tensor wide = x.to(at::kFloat);
  at::Tensor inverse = wide.square().mean(-1, /*keepdim=*/true).add_(eps).rsqrt();  // [tokens, 1]
  return (wide * inverse).to(x.scalar_type()) * weight;
}

}  // namespace forge
