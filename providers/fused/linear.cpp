#include "providers/fused/linear.h"

#include <ATen/ATen.h>

#include "kernels/lora/lora_args.h"
#include "providers/fused/tensors.h"

namespace forge {
namespace {

// One layer alone: its dropout has a mask of its own, which layers that share x do not.
LoraGroup adapter_of(const LinearSpec& spec, const at::Tensor& x, const at::Tensor& y, const at::Tensor& s,
                     const RowKeys* rows) {
  LoraGroup g{.type = element_of(x),
              .tokens = x.size(0),
              .width = x.size(1),
              .rank = spec.lora_a.size(0),
              .members = 1,
              .scale = static_cast<float>(spec.scale),
              .x = x.data_ptr(),
              .x_stride = x.stride(0),
              .a = spec.lora_a.data_ptr(),
              .s = s.data_ptr<float>()};
  g.member[0] = {.out = y.size(1), .b = spec.lora_b.data_ptr(), .y = y.data_ptr(), .y_stride = y.stride(0)};
  if (rows && spec.dropout > 0)
    g.dropout = {.probability = spec.dropout,
                 .seed = rows->seed,
                 .stream = spec.dropout_stream,
                 .step = rows->step,
                 .example = rows->example.data(),
                 .position = rows->position.data()};
  return g;
}

void weight_backward(const FusedLinear& linear, const at::Tensor& x, const at::Tensor& d_y) {
  if (linear.bias) linear.bias->grad.add_(d_y.sum(0, /*keepdim=*/false, at::kFloat));
  if (!linear.weight) return;
  // In 16 bits the product is rounded before it is added up, as LibTorch has no product of theirs into fp32.
  if (d_y.scalar_type() == at::kFloat)
    linear.weight->grad.addmm_(d_y.t(), x);
  else
    linear.weight->grad.add_(at::mm(d_y.t(), x));
}

}  // namespace

FusedLinear fused_linear(const LinearSpec& spec, const std::vector<Trainable*>& trainables) {
  FusedLinear linear{.spec = &spec};
  for (Trainable* item : trainables) {
    if (item->leaf.is_same(spec.weight)) linear.weight = item;
    if (item->leaf.is_same(spec.bias)) linear.bias = item;
    if (item->leaf.is_same(spec.lora_a)) linear.lora_a = item;
    if (item->leaf.is_same(spec.lora_b)) linear.lora_b = item;
  }
  FORGE_CHECK(!linear.lora_a == !linear.lora_b, "half an adapter is trained");
  FORGE_CHECK(!spec.magnitude.defined(), "the plan gave DoRA to the fused provider");
  return linear;
}

at::Tensor linear_forward(const FusedLinear& linear, const at::Tensor& x, const RowKeys* rows,
                          at::Tensor* s) {
  const LinearSpec& spec = *linear.spec;
  at::Tensor y = at::linear(x, base_weight(spec, x.scalar_type()), spec.bias);
  if (!spec.adapted()) return y;
  at::Tensor kept = at::empty({x.size(0), spec.lora_a.size(0)}, at::kFloat);
  LoraForward args{adapter_of(spec, x, y, kept, rows)};
  at::Tensor workspace = scratch(lora_forward_cpu_workspace(args));
  args.workspace = workspace.data_ptr();
  lora_forward_cpu(args);
  if (s) *s = kept;
  return y;
}

void linear_backward(const FusedLinear& linear, const at::Tensor& x, const at::Tensor& s,
                     const at::Tensor& d_y, const RowKeys* rows, const at::Tensor& d_x, bool add) {
  const LinearSpec& spec = *linear.spec;
  if (d_x.defined()) {
    at::Tensor target = d_x;
    at::addmm_out(target, d_x, d_y, base_weight(spec, d_y.scalar_type()), add ? 1 : 0, 1);
  }
  weight_backward(linear, x, d_y);
  if (!linear.lora_a) return;
  LoraBackward args{adapter_of(spec, x, d_y, s, rows)};
  args.group.member[0].d_b = linear.lora_b->grad.data_ptr<float>();
  args.d_a = linear.lora_a->grad.data_ptr<float>();
  if (d_x.defined()) args.d_x = d_x.data_ptr(), args.d_x_stride = d_x.stride(0);
  at::Tensor workspace = scratch(lora_backward_cpu_workspace(args));
  args.workspace = workspace.data_ptr();
  lora_backward_cpu(args);
}

}  // namespace forge
