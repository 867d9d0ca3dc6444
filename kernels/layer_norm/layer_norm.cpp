#include "kernels/layer_norm/layer_norm.h"

#include <ATen/ATen.h>

namespace forge {

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps,
                      std::optional<c10::ScalarType> type, double weight_offset) {
  if (weight_offset != 0) {
    const auto wide = [](const at::Tensor& y) { return y.defined() ? y.to(at::kFloat) : y; };
    const at::Tensor y = at::layer_norm(wide(x), {x.size(-1)}, wide(weight) + weight_offset, wide(bias), eps);
    return y.to(type.value_or(x.scalar_type()));
  }
  const auto as_x = [&](const at::Tensor& y) { return y.defined() ? y.to(x.scalar_type()) : y; };
  return at::layer_norm(x, {x.size(-1)}, as_x(weight), as_x(bias), eps).to(type.value_or(x.scalar_type()));
}

}  // namespace forge
