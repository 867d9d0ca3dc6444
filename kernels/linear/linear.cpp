#include "kernels/linear/linear.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

namespace forge {
namespace {

// ‖W + scale · B A‖ per output row, detached. [out_features]
at::Tensor row_norm(const LinearSpec& spec) {
  c10::NoGradGuard no_grad;
  at::Tensor sum = spec.weight.to(at::kFloat) + spec.scale * at::mm(spec.lora_b.to(at::kFloat), spec.lora_a.to(at::kFloat));
  return at::linalg_vector_norm(sum, 2, {1});
}

}  // namespace

at::Tensor linear(const LinearSpec& spec, const at::Tensor& x, const RowKeys* rows) {
  if (!spec.adapted()) return at::linear(x, spec.weight, spec.bias);
  at::Tensor dropped = rows ? counter_dropout(x, spec.dropout, spec.dropout_stream, *rows) : x;
  at::Tensor s = at::linear(dropped, spec.lora_a);  // [tokens, rank]
  if (!spec.magnitude.defined()) {
    // Neither term of the sum is saved for backward, so the product may be added in place.
    at::Tensor y = at::linear(x, spec.weight, spec.bias);
    return y.addmm_(s, spec.lora_b.t(), 1, spec.scale);
  }
  // As PEFT: the base term uses the undropped input, rescaled by m / norm like the adapter's.
  at::Tensor y = at::linear(x, spec.weight).addmm_(s, spec.lora_b.t(), 1, spec.scale);
  at::Tensor ratio = spec.magnitude / row_norm(spec).to(spec.magnitude.scalar_type());
  y = y * ratio.to(y.scalar_type());
  return spec.bias.defined() ? y + spec.bias : y;
}

at::Tensor merged_weight(const LinearSpec& spec) {
  c10::NoGradGuard no_grad;
  at::Tensor weight = spec.weight.to(at::kFloat);
  if (!spec.adapted()) return weight;
  at::Tensor sum = weight + spec.scale * at::mm(spec.lora_b.to(at::kFloat), spec.lora_a.to(at::kFloat));
  if (!spec.magnitude.defined()) return sum;
  return sum * (spec.magnitude.to(at::kFloat) / row_norm(spec)).unsqueeze(1);
}

}  // namespace forge
