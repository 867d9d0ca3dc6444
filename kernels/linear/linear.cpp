#include "kernels/linear/linear.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "core/lib/base/error.h"

namespace forge {
namespace {

// The backward of x Wᵀ with a W that is held in another type. The graph keeps tensors that live
// anyway but never the converted weight, which is converted again for d x = d y W.
struct ConvertedLinearBackward : torch::autograd::Node {
  at::Tensor weight;          // either this
  QuantizedWeight quantized;  // or this

  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
    if (!grads[0].defined() || !task_should_compute_output(0)) return {at::Tensor()};
    const c10::ScalarType type = grads[0].scalar_type();
    return {at::mm(grads[0], quantized.defined() ? dequantize(quantized, type) : weight.to(type))};
  }
};

at::Tensor converted_linear(const LinearSpec& spec, const at::Tensor& x, const at::Tensor& bias) {
  FORGE_CHECK(!bias.defined() || !bias.requires_grad(),
              "a trained bias on a weight that is held in another type");
  at::Tensor y;
  {
    c10::NoGradGuard no_grad;
    y = at::linear(x, base_weight(spec, x.scalar_type()), bias);
  }
  if (!torch::autograd::compute_requires_grad(x)) return y;
  std::shared_ptr<ConvertedLinearBackward> node(new ConvertedLinearBackward(), torch::autograd::deleteNode);
  node->weight = spec.weight;
  node->quantized = spec.quantized;
  node->set_next_edges(torch::autograd::collect_next_edges(x));
  torch::autograd::set_history(y, node);
  return y;
}

at::Tensor frozen_linear(const LinearSpec& spec, const at::Tensor& x, const at::Tensor& bias) {
  const bool converted = spec.quantized.defined() || spec.weight.scalar_type() != x.scalar_type();
  return converted ? converted_linear(spec, x, bias) : at::linear(x, spec.weight, bias);
}

// Returns ‖W + scale · B A‖ per output row, detached, for the weight as it is multiplied in `type`.
// [out_features]
at::Tensor row_norm(const LinearSpec& spec, c10::ScalarType type) {
  c10::NoGradGuard no_grad;
  // The sum needs one fp32 matrix of the weight's size, updated in place; a weight in another type
  // is converted while it is added.
  at::Tensor sum = at::mm(spec.lora_b.to(at::kFloat), spec.lora_a.to(at::kFloat)).mul_(spec.scale);
  sum.add_(base_weight(spec, type));
  return at::linalg_vector_norm(sum, 2, {1});
}

}  // namespace

at::Tensor base_weight(const LinearSpec& spec, c10::ScalarType type) {
  return spec.quantized.defined() ? dequantize(spec.quantized, type) : spec.weight.to(type);
}

at::Tensor unscaled_linear(const LinearSpec& spec, const at::Tensor& x, const RowKeys* rows) {
  if (!spec.adapted()) return frozen_linear(spec, x, spec.bias);
  at::Tensor dropped = rows ? counter_dropout(x, spec.dropout, spec.dropout_stream, *rows) : x;
  at::Tensor s = at::linear(dropped, spec.lora_a);  // [tokens, rank]
  // DoRA's base term uses the undropped input too, like in PEFT. Neither term of the sum is saved
  // for the backward, so the product may be added in place.
  at::Tensor y = frozen_linear(spec, x, spec.magnitude.defined() ? at::Tensor() : spec.bias);
  return y.addmm_(s, spec.lora_b.t(), 1, spec.scale);
}

at::Tensor linear_into(const at::Tensor& y, const LinearSpec& spec, const at::Tensor& x, const RowKeys* rows) {
  at::Tensor place = y;
  const at::Tensor weight = base_weight(spec, x.scalar_type()).t();
  if (spec.bias.defined() && !spec.magnitude.defined())
    at::addmm_out(place, spec.bias, x, weight);
  else
    at::mm_out(place, x, weight);
  if (!spec.adapted()) return {};
  at::Tensor s = at::linear(rows ? counter_dropout(x, spec.dropout, spec.dropout_stream, *rows) : x, spec.lora_a);
  place.addmm_(s, spec.lora_b.t(), 1, spec.scale);
  return s;
}

at::Tensor rescaled(const LinearSpec& spec, at::Tensor y) {
  if (!spec.magnitude.defined()) return y;
  at::Tensor ratio = spec.magnitude / row_norm(spec, y.scalar_type()).to(spec.magnitude.scalar_type());
  y = y * ratio.to(y.scalar_type());
  return spec.bias.defined() ? y + spec.bias : y;
}

at::Tensor linear(const LinearSpec& spec, const at::Tensor& x, const RowKeys* rows) {
  return rescaled(spec, unscaled_linear(spec, x, rows));
}

at::Tensor joined_linear(const LinearSpec& spec, const at::Tensor& x,
                         const std::vector<int64_t>& counts, bool out_first) {
  const auto experts = static_cast<int64_t>(counts.size());
  const auto parts = [](const at::Tensor& all, int64_t dim) { return all.defined() ? all.unbind(dim) : std::vector<at::Tensor>(); };
  const std::vector<at::Tensor> rows = x.split_with_sizes(counts), weights = spec.weight.unbind(0), biases = parts(spec.bias, 0);
  std::vector<at::Tensor> a, b, results;
  if (spec.adapted()) a = spec.lora_a.unflatten(0, {experts, -1}).unbind(0), b = spec.lora_b.unflatten(1, {-1, experts}).unbind(2);
  for (size_t expert = 0; expert < counts.size(); ++expert) {
    if (counts[expert] == 0) continue;
    LinearSpec own{.weight = out_first ? weights[expert] : weights[expert].t()};
    if (spec.bias.defined()) own.bias = biases[expert];
    if (spec.adapted()) own.lora_a = a[expert], own.lora_b = b[expert], own.scale = spec.scale;
    results.push_back(unscaled_linear(own, rows[expert], nullptr));
  }
  return at::cat(results);
}

}  // namespace forge
