#include "providers/fused/cpu_linear.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "kernels/common/add_narrow.h"
#include "kernels/dora/dora_args.h"
#include "kernels/lora/lora_args.h"
#include "providers/fused/fused_plan.h"

namespace forge::fused {
namespace {

// The part of a value that belongs to one of the op's modules. [rows, out]
at::Tensor part(const CpuRun& r, ValueId whole, size_t module) {
  int64_t column = 0;
  for (size_t i = 0; i < module; ++i) column += r.use(i).out;
  return r.m.tensor(whole).narrow(1, column, r.use(module).out);
}

// One matrix over those of all the op's modules, if they lie one behind the other. [sum of outs, in]
at::Tensor together(const CpuRun& r, const std::vector<at::Tensor>& matrices) {
  const char* next = static_cast<const char*>(matrices[0].data_ptr());
  int64_t rows = 0;
  for (const at::Tensor& matrix : matrices) {
    if (matrix.data_ptr() != next || matrix.scalar_type() != matrices[0].scalar_type()) return {};
    next += matrix.nbytes();
    rows += matrix.size(0);
  }
  return at::from_blob(matrices[0].data_ptr(), {rows, r.use().in},
                       matrices[0].options().requires_grad(false));
}

at::Tensor base_together(const CpuRun& r) {
  std::vector<at::Tensor> weights;
  for (size_t i = 0; i < r.op.modules.size(); ++i) {
    const LinearSpec& linear = *r.module(i).linear;
    if (linear.quantized.defined() || linear.weight.scalar_type() != r.m.type) return {};
    weights.push_back(linear.weight);
  }
  return together(r, weights);
}

// y = x Wᵀ + bias. In decoding a row does not depend on how many there are: with LibTorch's products it does, and they are taken
// for prompts in 16 bits alone.
void product(const CpuRun& r, at::Tensor y, const at::Tensor& x, const at::Tensor& weight,
             const at::Tensor& bias) {
  if (const CachePlaces* cache = r.batch.cache; cache && (!cache->begins || r.m.type == at::kFloat))
    return row_product(y, x, weight, bias, *cache->scratch);
  if (!bias.defined()) {
    at::mm_out(y, x, weight.t());
    return;
  }
  y.copy_(bias.expand_as(y));
  at::addmm_out(y, y, x, weight.t());
}

// One module alone: its dropout has a mask of its own, which modules that share x do not.
LoraGroup adapter_of(const CpuRun& r, size_t module, ValueId x, const at::Tensor& y, ValueId s) {
  const LinearSpec& spec = *r.module(module).linear;
  LoraGroup g{.type = r.type(),
              .tokens = r.m.tokens,
              .width = r.use(module).in,
              .rank = r.use(module).rank,
              .members = 1,
              .scale = static_cast<float>(spec.scale),
              .x = r.m.data(x),
              .x_stride = r.m.stride(x),
              .a = spec.lora_a.data_ptr(),
              .s = r.m.numbers(s)};
  g.member[0] = {.out = y.size(1), .b = spec.lora_b.data_ptr(), .y = y.data_ptr(), .y_stride = y.stride(0)};
  const RowKeys* rows = r.tensors().dropout_rows();
  if (rows && spec.dropout > 0)
    g.dropout = {.probability = spec.dropout,
                 .seed = rows->seed,
                 .stream = spec.dropout_stream,
                 .step = rows->step,
                 .example = rows->example.data(),
                 .position = rows->position.data()};
  return g;
}

// visit(module, number among the adapted ones)
template <class Visit>
void each_adapter(const CpuRun& r, Visit visit) {
  for (size_t i = 0, adapter = 0; i < r.op.modules.size(); ++i)
    if (r.use(i).rank > 0) visit(i, adapter++);
}

}  // namespace

void linear(const CpuRun& r) {
  const ValueId x = r.in(0), y = r.out(0);
  const at::Tensor input = r.m.tensor(x), all = base_together(r);
  bool biased = false;
  const auto bias = [&](size_t i) {  // that no rescaling comes before
    const LinearSpec& spec = *r.module(i).linear;
    FORGE_CHECK(spec.magnitude.defined() <= r.op.attributes.unscaled, "a list without the ops of its DoRA");
    return spec.magnitude.defined() ? at::Tensor() : spec.bias;
  };
  for (size_t i = 0; i < r.op.modules.size(); ++i) biased |= bias(i).defined();
  if (all.defined() && !biased)
    product(r, r.m.tensor(y), input, all, {});
  else
    for (size_t i = 0; i < r.op.modules.size(); ++i)
      product(r, part(r, y, i), input, base_weight(*r.module(i).linear, r.m.type), bias(i));
  each_adapter(r, [&](size_t i, size_t adapter) {
    lora_forward_cpu({adapter_of(r, i, x, part(r, y, i), r.out(1 + adapter)), r.workspace});
  });
}

namespace {

// ‖W + scale · B A‖ of each output row, some rows at a time.
void row_norms(const CpuRun& r, const LinearSpec& spec, float* norms) {
  const at::Tensor base = base_weight(spec, r.m.type), a = spec.lora_a.to(at::kFloat),
                   b = spec.lora_b.to(at::kFloat);
  const auto floats = at::TensorOptions().dtype(at::kFloat);
  for (int64_t row = 0; row < base.size(0); row += kRatioRows) {
    const int64_t rows = std::min(kRatioRows, base.size(0) - row);
    at::Tensor block = at::from_blob(r.workspace, {rows, base.size(1)}, floats);
    at::mm_out(block, b.narrow(0, row, rows), a);
    block.mul_(spec.scale).add_(base.narrow(0, row, rows));
    at::Tensor norm = at::from_blob(norms + row, {rows}, floats);
    at::linalg_vector_norm_out(norm, block, 2, at::IntArrayRef{1});
  }
}

}  // namespace

// Ratios of all columns, then one over their norms; columns without an adapter stay as they are.
void dora_ratio(const CpuRun& r) {
  const int64_t width = r.m.width(r.out(0));
  float *const begin = r.m.numbers(r.out(0)), *ratio = begin, *inverse = begin + width / 2;
  std::vector<float>* known = r.m.ratios ? &(*r.m.ratios)[r.out(0)] : nullptr;
  if (known && !known->empty()) {
    std::copy(known->begin(), known->end(), begin);
    return;
  }
  for (size_t i = 0; i < r.op.modules.size(); ++i) {
    const int64_t count = r.use(i).out;
    if (r.use(i).rank > 0) {
      const LinearSpec& spec = *r.module(i).linear;
      const at::Tensor magnitude = spec.magnitude.to(at::kFloat);
      row_norms(r, spec, inverse);
      for (int64_t j = 0; j < count; ++j) {
        inverse[j] = 1 / inverse[j];
        ratio[j] = magnitude.const_data_ptr<float>()[j] * inverse[j];
      }
    }
    ratio += count, inverse += count;
  }
  if (known) known->assign(begin, begin + width);
}

namespace {

// visit(module, its first column)
template <class Visit>
void each_module(const CpuRun& r, Visit visit) {
  for (size_t i = 0, column = 0; i < r.op.modules.size(); column += static_cast<size_t>(r.use(i++).out))
    visit(i, static_cast<int64_t>(column));
}

}  // namespace

void dora(const CpuRun& r) {
  const at::Tensor x = r.m.tensor(r.in(0)), y = r.m.tensor(r.out(0));
  each_module(r, [&](size_t i, int64_t column) {
    const LinearSpec& spec = *r.module(i).linear;
    const at::Tensor from = x.narrow(1, column, r.use(i).out);
    at::Tensor to = y.narrow(1, column, r.use(i).out);
    if (r.use(i).rank == 0) {
      to.copy_(from);
      return;
    }
    dora_forward_cpu({.type = r.type(),
                      .rows = r.m.tokens,
                      .width = r.use(i).out,
                      .x = from.data_ptr(),
                      .x_stride = r.m.stride(r.in(0)),
                      .ratio = r.m.numbers(r.in(1)) + column,
                      .bias = spec.bias.defined() ? spec.bias.data_ptr() : nullptr,
                      .y = to.data_ptr(),
                      .y_stride = r.m.stride(r.out(0))});
  });
}

void dora_backward(const CpuRun& r) {
  const at::Tensor d_y = r.m.tensor(r.in(0)), x = r.m.tensor(r.in(1));
  const int64_t width = r.m.width(r.in(2)) / 2;
  each_module(r, [&](size_t i, int64_t column) {
    const at::Tensor from = d_y.narrow(1, column, r.use(i).out);
    at::Tensor d_x = r.m.tensor(r.out(i));
    if (r.use(i).rank == 0) {
      if (d_x.data_ptr() != from.data_ptr()) d_x.copy_(from);
      return;
    }
    dora_backward_cpu({.type = r.type(),
                       .rows = r.m.tokens,
                       .width = r.use(i).out,
                       .x = x.narrow(1, column, r.use(i).out).data_ptr(),
                       .x_stride = r.m.stride(r.in(1)),
                       .ratio = r.m.numbers(r.in(2)) + column,
                       .inverse_norm = r.m.numbers(r.in(2)) + width + column,
                       .d_y = from.data_ptr(),
                       .d_y_stride = r.m.stride(r.in(0)),
                       .d_x = d_x.data_ptr(),
                       .d_x_stride = r.m.stride(r.out(0)),
                       .d_magnitude = r.module(i).magnitude->grad.data_ptr<float>()});
  });
}

void linear_input_gradient(const CpuRun& r) {
  at::Tensor d_x = r.m.tensor(r.out(0)), all = base_together(r);
  if (all.defined()) {
    at::addmm_out(d_x, d_x, r.m.tensor(r.in(0)), all, r.op.attributes.accumulate ? 1 : 0, 1);
    return;
  }
  for (size_t i = 0; i < r.op.modules.size(); ++i) {
    const bool add = r.op.attributes.accumulate || i > 0;
    at::addmm_out(d_x, d_x, part(r, r.in(0), i), base_weight(*r.module(i).linear, r.m.type), add ? 1 : 0, 1);
  }
}

namespace {

// gradient += d yᵀ x. In 16 bits the product is rounded before it is added up: LibTorch has no product of theirs into fp32.
void weight_gradient(const CpuRun& r, at::Tensor gradient, const at::Tensor& d_y, const at::Tensor& x) {
  if (r.m.type == at::kFloat) {
    at::addmm_out(gradient, gradient, d_y.t(), x);
    return;
  }
  at::Tensor rounded = at::from_blob(r.workspace, gradient.sizes(), at::TensorOptions().dtype(r.m.type));
  at::mm_out(rounded, d_y.t(), x);
  add_narrow(gradient, rounded);
}

}  // namespace

void linear_weight_gradient(const CpuRun& r) {
  const at::Tensor x = r.m.tensor(r.in(1));
  std::vector<at::Tensor> gradients;
  for (size_t i = 0; i < r.op.modules.size(); ++i) {
    if (Trainable* bias = r.module(i).bias)
      bias->grad.add_(part(r, r.in(0), i).sum(0, /*keepdim=*/false, at::kFloat));
    if (Trainable* weight = r.module(i).weight) gradients.push_back(weight->grad);
  }
  if (r.m.type == at::kFloat && gradients.size() == r.op.modules.size())
    if (at::Tensor all = together(r, gradients); all.defined())
      return weight_gradient(r, all, r.m.tensor(r.in(0)), x);
  for (size_t i = 0; i < r.op.modules.size(); ++i)
    if (Trainable* weight = r.module(i).weight) weight_gradient(r, weight->grad, part(r, r.in(0), i), x);
}

void adapter_gradient(const CpuRun& r) {
  const ValueId d_y = r.in(0), x = r.in(1);
  each_adapter(r, [&](size_t i, size_t adapter) {
    LoraBackward args{adapter_of(r, i, x, part(r, d_y, i), r.in(2 + adapter))};
    args.group.member[0].d_b = r.module(i).lora_b->grad.data_ptr<float>();
    args.d_a = r.module(i).lora_a->grad.data_ptr<float>();
    if (!r.op.out.empty()) args.d_x = r.m.data(r.out(0)), args.d_x_stride = r.m.stride(r.out(0));
    args.workspace = r.workspace;
    lora_backward_cpu(args);
  });
}

}  // namespace forge::fused
