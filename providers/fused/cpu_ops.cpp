#include "providers/fused/cpu_ops.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "core/graph/ops.h"
#include "core/model/forward.h"
#include "kernels/attention/attention_args.h"
#include "kernels/common/add_narrow.h"
#include "kernels/dora/dora_args.h"
#include "kernels/embedding/embedding_args.h"
#include "kernels/lora/lora_args.h"
#include "kernels/product/product_args.h"
#include "kernels/rms_norm/rms_norm_args.h"
#include "kernels/rope/rope_args.h"
#include "kernels/swiglu/swiglu_args.h"
#include "providers/fused/fused_plan.h"

namespace forge {
namespace {

// One op at work.
struct Run {
  const StepMemory& m;
  const Op& op;
  void* workspace;
  const std::vector<BoundModule>& modules;
  const StepBatch& batch;

  ValueId in(size_t i) const { return op.in[i]; }
  ValueId out(size_t i) const { return op.out[i]; }
  const BoundModule& module(size_t i = 0) const { return modules[static_cast<size_t>(op.modules[i])]; }
  const ModuleUse& use(size_t i = 0) const { return m.graph.module(op, i); }
  Element type() const { return element_of(m.type); }
  const BatchTensors& tensors() const { return *batch.tensors; }
};

// ---- rows ----

void embed(const Run& r) {
  const at::Tensor& table = *r.module().vector;
  const double scale = rounded(r.op.attributes.scale, r.m.type);
  if (table.scalar_type() == r.m.type) {
    embedding_forward_cpu({.type = r.type(),
                           .tokens = r.m.tokens,
                           .width = r.m.width(r.out(0)),
                           .vocab = table.size(0),
                           .ids = r.tensors().token_ids.const_data_ptr<int64_t>(),
                           .table = table.data_ptr(),
                           .y = r.m.data(r.out(0)),
                           .y_stride = r.m.stride(r.out(0)),
                           .scale = static_cast<float>(scale)});
    return;
  }
  r.m.tensor(r.out(0)).copy_(at::embedding(table, r.tensors().token_ids));
  if (scale != 1) r.m.tensor(r.out(0)).mul_(scale);
}

void embed_backward(const Run& r) {
  Trainable& table = *r.module().weight;
  const int64_t frozen = r.op.attributes.frozen_row;
  std::vector<float> before;
  float* row = nullptr;
  if (frozen >= 0) {
    row = table.grad.data_ptr<float>() + frozen * r.m.width(r.in(0));
    before.assign(row, row + r.m.width(r.in(0)));
  }
  embedding_backward_cpu({.type = r.type(),
                          .tokens = r.m.tokens,
                          .width = r.m.width(r.in(0)),
                          .vocab = table.grad.size(0),
                          .ids = r.tensors().token_ids.const_data_ptr<int64_t>(),
                          .d_y = r.m.data(r.in(0)),
                          .d_y_stride = r.m.stride(r.in(0)),
                          .d_table = table.grad.data_ptr<float>(),
                          .scale = static_cast<float>(rounded(r.op.attributes.scale, r.m.type))});
  std::copy(before.begin(), before.end(), row);  // what a tied head has added to it stays
}

// Rows of whole buffers, `from_row(i)` to `to_row(i)`.
template <class From, class To>
void copy_rows(const Run& r, ValueId from, ValueId to, int64_t count, From from_row, To to_row) {
  const int64_t bytes = r.m.width(from) * bytes_of(r.type());
  const auto* source = static_cast<const char*>(r.m.data(from));
  auto* target = static_cast<char*>(r.m.data(to));
  at::parallel_for(0, count, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      std::memcpy(target + to_row(i) * bytes, source + from_row(i) * bytes, static_cast<size_t>(bytes));
  });
}

void gather(const Run& r) {
  const int64_t* positions = r.tensors().loss_positions.const_data_ptr<int64_t>();
  copy_rows(
      r, r.in(0), r.out(0), r.m.targets, [&](int64_t i) { return positions[i]; },
      [](int64_t i) { return i; });
}

void scatter(const Run& r) {
  const int64_t* positions = r.tensors().loss_positions.const_data_ptr<int64_t>();
  FORGE_CHECK(!r.op.attributes.accumulate, "supervised rows of a value that has another gradient");
  r.m.tensor(r.out(0)).zero_();
  copy_rows(
      r, r.in(0), r.out(0), r.m.targets, [](int64_t i) { return i; },
      [&](int64_t i) { return positions[i]; });
}

// The first output lies in the place of the second input (add) or of the first (add_gradient).
void add(const Run& r) {
  at::Tensor sum = r.m.tensor(r.out(0));
  sum.add_(r.m.tensor(r.op.kind == OpKind::add ? r.in(0) : r.in(1)));
}

// ---- norm ----

void norm(const Run& r) {
  const bool adds = r.op.kind == OpKind::add_norm;
  const ValueId x = r.in(adds ? 1 : 0), y = r.out(adds ? 1 : 0), inverse = r.out(adds ? 2 : 1);
  const int64_t rows = r.m.rows(x), width = r.op.attributes.head_dim, bytes = width * bytes_of(r.type());
  RmsNormForward args{
      .type = r.type(), .rows = rows, .width = width, .x = r.m.data(x), .x_stride = r.m.stride(x)};
  if (adds) {
    args.residual = r.m.data(r.in(0)), args.residual_stride = r.m.stride(r.in(0));
    args.h = r.m.data(r.out(0)), args.h_stride = r.m.stride(r.out(0));
  }
  args.weight = r.module().vector->data_ptr();
  args.weight_offset = static_cast<float>(r.op.attributes.weight_offset);
  args.eps = static_cast<float>(r.op.attributes.eps);
  args.y = r.m.data(y), args.y_stride = r.m.stride(y);
  args.inverse = r.m.numbers(inverse);
  // Each head by itself: one has the width of the whole row but for norms of q and k.
  for (int64_t head = 0; head < r.m.width(x) / width; ++head) {
    rms_norm_forward_cpu(args);
    args.x = static_cast<const char*>(args.x) + bytes;
    args.y = static_cast<char*>(args.y) + bytes;
    args.inverse += rows;
  }
}

void norm_backward(const Run& r) {
  const Trainable* trained = r.module().weight;
  const int64_t rows = r.m.rows(r.in(0)), width = r.op.attributes.head_dim,
                bytes = width * bytes_of(r.type());
  RmsNormBackward args{.type = r.type(),
                       .rows = rows,
                       .width = width,
                       .d_y = r.m.data(r.in(0)),
                       .d_y_stride = r.m.stride(r.in(0)),
                       .h = r.m.data(r.in(1)),
                       .h_stride = r.m.stride(r.in(1)),
                       .weight = r.module().vector->data_ptr(),
                       .weight_offset = static_cast<float>(r.op.attributes.weight_offset),
                       .inverse = r.m.numbers(r.in(2)),
                       .d_h = r.m.data(r.out(0)),
                       .d_h_stride = r.m.stride(r.out(0)),
                       .accumulate = r.op.attributes.accumulate,
                       .d_weight = trained ? trained->grad.data_ptr<float>() : nullptr};
  for (int64_t head = 0; head < r.m.width(r.in(0)) / width; ++head) {
    rms_norm_backward_cpu(args);
    args.d_y = static_cast<const char*>(args.d_y) + bytes;
    args.h = static_cast<const char*>(args.h) + bytes;
    args.d_h = static_cast<char*>(args.d_h) + bytes;
    args.inverse += rows;
  }
}

// ---- linear ----

// The part of a value that belongs to one of the op's modules. [rows, out]
at::Tensor part(const Run& r, ValueId whole, size_t module) {
  int64_t column = 0;
  for (size_t i = 0; i < module; ++i) column += r.use(i).out;
  return r.m.tensor(whole).narrow(1, column, r.use(module).out);
}

// One matrix over those of all the op's modules, if they lie one behind the other. [sum of outs, in]
at::Tensor together(const Run& r, const std::vector<at::Tensor>& matrices) {
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

at::Tensor base_together(const Run& r) {
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
void product(const Run& r, at::Tensor y, const at::Tensor& x, const at::Tensor& weight,
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
LoraGroup adapter_of(const Run& r, size_t module, ValueId x, const at::Tensor& y, ValueId s) {
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
void each_adapter(const Run& r, Visit visit) {
  for (size_t i = 0, adapter = 0; i < r.op.modules.size(); ++i)
    if (r.use(i).rank > 0) visit(i, adapter++);
}

void linear(const Run& r) {
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

// ---- DoRA ----

// ‖W + scale · B A‖ of each output row, some rows at a time.
void row_norms(const Run& r, const LinearSpec& spec, float* norms) {
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

// Ratios of all columns, then one over their norms; columns without an adapter stay as they are.
void dora_ratio(const Run& r) {
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

// visit(module, its first column)
template <class Visit>
void each_module(const Run& r, Visit visit) {
  for (size_t i = 0, column = 0; i < r.op.modules.size(); column += static_cast<size_t>(r.use(i++).out))
    visit(i, static_cast<int64_t>(column));
}

void dora(const Run& r) {
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

void dora_backward(const Run& r) {
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

// ---- linear, backward ----

void linear_input_gradient(const Run& r) {
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

// gradient += d yᵀ x. In 16 bits the product is rounded before it is added up: LibTorch has no product of theirs into fp32.
void weight_gradient(const Run& r, at::Tensor gradient, const at::Tensor& d_y, const at::Tensor& x) {
  if (r.m.type == at::kFloat) {
    at::addmm_out(gradient, gradient, d_y.t(), x);
    return;
  }
  at::Tensor rounded = at::from_blob(r.workspace, gradient.sizes(), at::TensorOptions().dtype(r.m.type));
  at::mm_out(rounded, d_y.t(), x);
  add_narrow(gradient, rounded);
}

void linear_weight_gradient(const Run& r) {
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

void adapter_gradient(const Run& r) {
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

// ---- attention ----

// q and k one behind the other in one row are turned at once.
void rope(const Run& r) {
  const Attributes& a = r.op.attributes;
  Rope args{.type = r.type(),
            .backward = r.op.kind == OpKind::rope_backward,
            .tokens = r.m.tokens,
            .head_dim = a.head_dim,
            .rotary_dim = 2 * r.batch.cosine.size(1),
            .cosine = r.batch.cosine.const_data_ptr<float>(),
            .sine = r.batch.sine.const_data_ptr<float>()};
  const auto turn = [&](ValueId x, int64_t heads, int64_t kv_heads) {
    args.heads = heads, args.kv_heads = kv_heads;
    args.qkv = r.m.data(x), args.stride = r.m.stride(x);
    rope_cpu(args);
  };
  const Value &q = r.m.graph.value(r.out(0)), &k = r.m.graph.value(r.out(1));
  if (q.buffer == k.buffer && q.column + q.width == k.column) return turn(r.out(0), a.heads, a.kv_heads);
  turn(r.out(0), a.heads, 0);
  turn(r.out(1), a.kv_heads, 0);
}

// What forward and backward of attention read.
template <class Args>
Args attention_args(const Run& r, ValueId out, ValueId lse) {
  const Attributes& a = r.op.attributes;
  const std::vector<int32_t>& cu_seqlens = r.tensors().cu_seqlens;
  Args args{.shape = {.type = r.type(),
                      .sequences = static_cast<int64_t>(cu_seqlens.size()) - 1,
                      .cu_seqlens = cu_seqlens.data(),
                      .heads = a.heads,
                      .kv_heads = a.kv_heads,
                      .head_dim = a.head_dim,
                      .scale = static_cast<float>(a.scale),
                      .window = a.window,
                      .softcap = static_cast<float>(a.softcap)}};
  args.q = r.m.data(r.in(0)), args.q_stride = r.m.stride(r.in(0));
  args.k = r.m.data(r.in(1)), args.k_stride = r.m.stride(r.in(1));
  args.v = r.m.data(r.in(2)), args.v_stride = r.m.stride(r.in(2));
  args.out = r.m.data(out), args.out_stride = r.m.stride(out);
  args.lse = r.m.numbers(lse);
  args.workspace = r.workspace;
  return args;
}

void store_in_cache(const Run& r) {
  const CachePlaces& places = *r.batch.cache;
  CacheStore args{places.shape, r.m.tokens, places.sequences.data(), places.positions.data()};
  args.k = r.m.data(r.in(1)), args.k_stride = r.m.stride(r.in(1));
  args.v = r.m.data(r.in(2)), args.v_stride = r.m.stride(r.in(2));
  args.keys = places.cache->keys(r.op.layer), args.values = places.cache->values(r.op.layer);
  cache_store_cpu(args);
}

void cached_attention(const Run& r) {
  const CachePlaces& places = *r.batch.cache;
  const Attributes& a = r.op.attributes;
  CachedAttention args{places.shape, static_cast<int64_t>(places.lengths.size()), a.heads, a.window};
  args.scale = static_cast<float>(a.scale), args.softcap = static_cast<float>(a.softcap);
  args.lengths = places.lengths.data();
  args.q = r.m.data(r.in(0)), args.q_stride = r.m.stride(r.in(0));
  args.keys = places.cache->keys(r.op.layer), args.values = places.cache->values(r.op.layer);
  args.out = r.m.data(r.out(0)), args.out_stride = r.m.stride(r.out(0));
  args.workspace = r.workspace;  // that of attention over blocks is larger
  cached_attention_cpu(args);
}

void attention(const Run& r) {
  if (r.batch.cache) {
    store_in_cache(r);
    if (!r.batch.cache->begins) return cached_attention(r);
  }
  attention_forward_cpu(attention_args<AttentionForward>(r, r.out(0), r.out(1)));
}

void attention_backward(const Run& r) {
  auto args = attention_args<AttentionBackward>(r, r.in(3), r.in(4));
  args.d_out = r.m.data(r.in(5)), args.d_out_stride = r.m.stride(r.in(5));
  args.d_q = r.m.data(r.out(0)), args.d_q_stride = r.m.stride(r.out(0));
  args.d_k = r.m.data(r.out(1)), args.d_k_stride = r.m.stride(r.out(1));
  args.d_v = r.m.data(r.out(2)), args.d_v_stride = r.m.stride(r.out(2));
  attention_backward_cpu(args);
}

// ---- gated activation ----

template <class Args>
Args gate_args(const Run& r, ValueId gate, ValueId up) {
  Args args{.type = r.type()};
  args.function = function_of(r.op.attributes.gate);
  args.rows = r.m.rows(gate), args.width = r.m.width(gate);
  args.gate = r.m.data(gate), args.gate_stride = r.m.stride(gate);
  args.up = r.m.data(up), args.up_stride = r.m.stride(up);
  return args;
}

void glu(const Run& r) {
  auto args = gate_args<SwigluForward>(r, r.in(0), r.in(1));
  args.y = r.m.data(r.out(0)), args.y_stride = r.m.stride(r.out(0));
  swiglu_forward_cpu(args);
}

void glu_backward(const Run& r) {
  auto args = gate_args<SwigluBackward>(r, r.in(1), r.in(2));
  args.d_y = r.m.data(r.in(0)), args.d_y_stride = r.m.stride(r.in(0));
  swiglu_backward_cpu(args);
}

}  // namespace

void row_product(at::Tensor y, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                 std::vector<char>& scratch) {
  RowProduct args{element_of(x.scalar_type()), element_of(y.scalar_type()), x.size(0), x.size(1), weight.size(0)};
  args.x = x.data_ptr(), args.x_stride = x.stride(0);
  args.w = weight.data_ptr();
  args.bias = bias.defined() ? bias.data_ptr() : nullptr;
  args.y = y.data_ptr(), args.y_stride = y.stride(0);
  const auto bytes = static_cast<size_t>(row_product_cpu_workspace(args));
  if (scratch.size() < bytes) scratch.resize(bytes);
  args.workspace = scratch.data();
  row_product_cpu(args);
}

void run_cpu_op(const StepMemory& memory, size_t index, const std::vector<BoundModule>& modules,
                const StepBatch& batch) {
  const Op& op = memory.graph.ops[index];
  const Run r{memory, op, memory.workspace(index), modules, batch};
  switch (op.kind) {
    case OpKind::embed:
      return embed(r);
    case OpKind::gather:
      return gather(r);
    case OpKind::add:
      return add(r);
    case OpKind::norm:
    case OpKind::add_norm:
      return norm(r);
    case OpKind::linear:
      return linear(r);
    case OpKind::dora_ratio:
      return dora_ratio(r);
    case OpKind::dora:
      return dora(r);
    case OpKind::dora_backward:
      return dora_backward(r);
    case OpKind::rope:
      return rope(r);
    case OpKind::attention:
      return attention(r);
    case OpKind::glu:
      return glu(r);
    case OpKind::head:
    case OpKind::evaluate:
      break;
    case OpKind::scatter:
      return scatter(r);
    case OpKind::add_gradient:
      return add(r);
    case OpKind::norm_backward:
      return norm_backward(r);
    case OpKind::linear_input_gradient:
      return linear_input_gradient(r);
    case OpKind::linear_weight_gradient:
      return linear_weight_gradient(r);
    case OpKind::adapter_gradient:
      return adapter_gradient(r);
    case OpKind::rope_backward:
      return rope(r);
    case OpKind::attention_backward:
      return attention_backward(r);
    case OpKind::glu_backward:
      return glu_backward(r);
    case OpKind::embed_backward:
      return embed_backward(r);
  }
  FORGE_CHECK(false, name_of(op.kind) << " is not an op of a layer");
}

}  // namespace forge
