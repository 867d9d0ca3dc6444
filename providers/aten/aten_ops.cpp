#include "providers/aten/aten_ops.h"

#include <ATen/ATen.h>
#include <c10/core/AutogradState.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>

#include "core/graph/op_record.h"
#include "core/model/dtype.h"
#include "kernels/attention/attention_op.h"
#include "kernels/common/add_narrow.h"
#include "kernels/delta_rule/delta_rule.h"
#include "kernels/device/gemm_tensors.h"
#include "kernels/dora/dora_op.h"
#include "kernels/embedding/embedding_op.h"
#include "kernels/experts/expert_linear_op.h"
#include "kernels/experts/experts_op.h"
#include "kernels/latent/heads_op.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/linear_op.h"
#include "kernels/lora/lora_op.h"
#include "kernels/rms_norm/norm_op.h"
#include "kernels/rope/rope.h"
#include "kernels/rope/rope_op.h"
#include "kernels/rows/rows_op.h"
#include "kernels/short_conv/short_conv.h"
#include "kernels/short_conv/short_conv_op.h"
#include "providers/aten/aten_plan.h"

namespace forge {
namespace {

using Tensors = std::vector<at::Tensor>;

// An op while it runs.
struct Run {
  const Model& model;
  const StepMemory& m;
  const Op& op;
  const std::vector<BoundModule>& modules;
  const BatchTensors& batch;
  const StepBatch& step;

  const BoundModule& module(size_t i = 0) const { return modules[static_cast<size_t>(op.modules[i])]; }
  bool of_source() const { return m.graph.buffer_of(op.in.empty() ? op.out[0] : op.in[0]).rows == Rows::source; }
  c10::ScalarType type(ValueId id) const { return scalar_of(m.element(id)); }
  // Return a value in its place: [rows, width], and as the numbers of experts that kernels write.
  at::Tensor value(ValueId id) const { return tensor_of(m, id, model.device); }
  at::Tensor numbers(ValueId id) const { return value(id).view(at::kInt); }
  at::Tensor in(size_t i) const { return value(op.in[i]); }
  at::Tensor out(size_t i) const { return value(op.out[i]); }
  // Writes a result, or adds it to the gradient so far, which is the op's last input.
  void give(size_t i, const at::Tensor& made) const {
    at::Tensor place = out(i);
    const bool adds = i == 0 && op.attributes.accumulate;
    const at::Tensor rows = made.reshape(place.sizes());
    if (adds)
      at::add_out(place, in(op.in.size() - 1), rows);
    else
      place.copy_(rows);
  }
};

at::Tensor leaf(const at::Tensor& x) { return x.detach().requires_grad_(true); }

void add_gradient(Trainable* item, const at::Tensor& gradient) {
  if (!item || !gradient.defined()) return;
  if (gradient.scalar_type() == item->grad.scalar_type())
    item->grad.add_(gradient);
  else
    add_narrow(item->grad, gradient.contiguous());
}

// Returns the gradients of `inputs` under `function`, of whose results `d` are the gradients, and
// adds those of `items`.
Tensors pulled(const Tensors& inputs, const std::function<Tensors(const Tensors&)>& function, const Tensors& d,
               const std::vector<Trainable*>& items = {}) {
  Tensors leaves, results;
  for (const at::Tensor& input : inputs) leaves.push_back(leaf(input));
  {
    c10::AutoGradMode on(true);
    results = function(leaves);
  }
  const size_t values = leaves.size();
  for (Trainable* item : items) leaves.push_back(item->leaf);
  // An expert without tokens has no gradient.
  Tensors grads = torch::autograd::grad({results.begin(), results.begin() + static_cast<int64_t>(d.size())}, leaves, d, {}, false, true);
  for (size_t i = 0; i < items.size(); ++i) add_gradient(items[i], grads[values + i]);
  grads.resize(values);
  return grads;
}

// Returns the columns of each module's result.
Tensors by_module(const Run& r, const at::Tensor& whole) {
  Tensors parts;
  int64_t column = 0;
  for (size_t i = 0; i < r.op.modules.size(); ++i) {
    const int64_t width = r.m.graph.module(r.op, i).out;
    parts.push_back(whole.narrow(1, column, width));
    column += width;
  }
  return parts;
}

// ---- experts: rows, and their order as kernels have it ----

// Returns int64 [tokens · per_token]: the place, in (token, choice) order, of each row.
at::Tensor order_of(const Run& r, ValueId id) { return r.numbers(id).reshape({-1}).to(at::kLong).argsort(); }
at::Tensor ends_of(const Run& r, ValueId id) { return r.numbers(id).reshape({-1}).to(at::kLong).cpu(); }
// Returns a value of experts' rows as [tokens · per_token, width].
at::Tensor expert_rows(const Run& r, const at::Tensor& value) { return value.reshape({value.size(0) * r.op.attributes.route.per_token, -1}); }

// Returns what the definition reads in the place of each input.
Tensors inputs_of(const Run& r) {
  Tensors in;
  for (size_t i = 0; i < r.op.in.size(); ++i) in.push_back(r.in(i));
  if (r.op.kind == &ops::dispatch) in[1] = order_of(r, r.op.in[1]);
  if (r.op.kind == &ops::scale_weights) in[1] = order_of(r, r.op.in[1]), in[2] = ends_of(r, r.op.in[2]);
  if (r.op.kind == &ops::combine || r.op.kind == &ops::collect) in[0] = expert_rows(r, in[0]), in[1] = order_of(r, r.op.in[1]);
  if (r.op.kind == &ops::expert_linear)
    in = {expert_rows(r, in[0]), ends_of(r, r.op.in[1]), order_of(r, r.op.in[2])};
  if (r.op.kind == &ops::dora) in = by_module(r, in[0]);
  return in;
}

// ---- attention ----

TextSides texts_of(const Run& r) {
  const SourceTensors& source = r.batch.source;
  const Sight sight = r.op.attributes.sight;
  if (source.groups.empty()) {
    const std::vector<PaddedTexts> texts = single_texts(r.op.attributes.chunk > 0 ? r.batch.chunk_cu_seqlens : r.batch.cu_seqlens);
    return {texts, texts};
  }
  return {sight == Sight::whole ? source.groups : source.answer_groups, sight == Sight::causal ? source.answer_groups : source.groups};
}
at::Tensor heads(const Run& r, const at::Tensor& x) { return x.unflatten(1, {-1, r.op.attributes.head_dim}); }

// Attention is called by the texts of a micro-batch, and never through its definition.
const Attend kNone;

OpCall call_of(const Run& r, const Op& op, c10::ScalarType type) {
  return {r.m.graph, op, r.modules, r.batch, kNone, r.of_source(), type};
}

void attention(const Run& r) {
  const AttentionRule rule = rule_of_attention(call_of(r, r.op, r.model.type));
  attend(heads(r, r.in(0)), heads(r, r.in(1)), heads(r, r.in(2)), texts_of(r), rule, {heads(r, r.out(0)), r.out(1)});
}

void attention_backward(const Run& r) {
  const AttentionRule rule = rule_of_attention(call_of(r, r.op, r.model.type));
  const at::Tensor trained = attend_backward(heads(r, r.in(5)), heads(r, r.in(0)), heads(r, r.in(1)), heads(r, r.in(2)),
                                             {heads(r, r.in(3)), r.in(4)}, texts_of(r), rule, heads(r, r.out(0)), heads(r, r.out(1)), heads(r, r.out(2)));
  if (!r.op.modules.empty()) add_gradient(r.module().weight, trained);
}

// ---- forward ops ----

// Writes where rows of experts lie as kernels read it.
void route(const Run& r, const Tensors& made) {
  r.out(0).copy_(made[0]);
  r.numbers(r.op.out[1]).copy_(made[1].argsort().reshape(r.numbers(r.op.out[1]).sizes()));
  r.numbers(r.op.out[2]).copy_(made[2].reshape({1, -1}));
  if (made.size() > 3) r.out(3).copy_(made[3].reshape({1, -1}));
  if (!r.step.expert_ends) return;
  std::vector<int32_t>& ends = (*r.step.expert_ends)[r.op.out[2]];
  ends.clear();
  for (int64_t expert = 0; expert < made[2].size(0); ++expert) ends.push_back(static_cast<int32_t>(made[2].const_data_ptr<int64_t>()[expert]));
}

void forward(const Run& r) {
  const OpCall call = call_of(r, r.op, r.op.out.empty() ? r.model.type : r.type(r.op.out[0]));
  const Tensors made = computed(call, inputs_of(r));
  if (r.op.kind == &ops::route) return route(r, made);
  const std::vector<ValueId>& results = r.op.parts.empty() || made.size() < r.op.parts.size() ? r.op.out : r.op.parts;
  for (size_t i = 0; i < made.size(); ++i) {
    at::Tensor place = r.value(results[i]);
    place.copy_(made[i].reshape(place.sizes()));
  }
}

// Adds two streams and norms the sum.
void add_norm(const Run& r) {
  const at::Tensor sum = r.in(0) + r.in(1);
  Op norm = r.op;
  norm.kind = &ops::norm;
  r.out(1).copy_(computed(call_of(r, norm, r.type(r.op.out[1])), {sum})[0]);
  r.out(0).copy_(sum);
}

// ---- gradients by autograd ----

std::vector<Trainable*> trained(std::vector<Trainable*> items) {
  std::erase(items, nullptr);
  return items;
}

// Pulls the gradient of the op that this one's record names, from the op's first input. A result
// beyond the gradients is the value that was computed again.
void by_autograd(const Run& r) {
  const GradientOf& of = r.op.kind->gradient_of;
  const size_t count = of.inputs > 0 ? of.inputs : r.op.in.size() - 1;
  Op op = r.op;
  op.kind = of.op, op.parts.clear();
  const OpCall call = call_of(r, op, r.type(r.op.in[0]));
  Tensors in, made;
  const Tensors d{r.in(0)};
  for (size_t i = 0; i < count; ++i) in.push_back(r.in(1 + i));
  std::vector<Trainable*> items;
  for (size_t i = 0; i < op.modules.size(); ++i) items.insert(items.end(), {r.module(i).weight, r.module(i).bias});
  items = trained(std::move(items));
  const Tensors grads = pulled(in, [&](const Tensors& x) { return made = computed(call, x); }, d, items);
  if (r.op.out.size() > count) r.out(count).copy_(made[0]);
  for (size_t i = 0; i < count && i < r.op.out.size(); ++i) r.give(i, grads[i]);
}

// Text by text, since autograd keeps several copies of what it reads.
void short_conv_backward(const Run& r) {
  const BoundModule& conv = r.module();
  const std::vector<Trainable*> items = trained({conv.weight, conv.bias});
  const at::Tensor bias = conv.vector_bias ? *conv.vector_bias : at::Tensor();
  for (size_t i = 0; i + 1 < r.batch.cu_seqlens.size(); ++i) {
    const int64_t first = r.batch.cu_seqlens[i], count = r.batch.cu_seqlens[i + 1] - first;
    if (count == 0) continue;
    const auto text = [&](const at::Tensor& x) { return x.narrow(0, first, count); };
    const auto function = [&](const Tensors& x) -> Tensors {
      return {short_conv(x[0], *conv.vector, bias, r.op.attributes.silu, {0, static_cast<int32_t>(count)})};
    };
    text(r.out(0)).copy_(pulled({text(r.in(1))}, function, {text(r.in(0))}, items)[0]);
  }
}

void delta_rule_backward(const Run& r) {
  DeltaTensors in{r.in(1), r.in(2), r.in(3), r.in(4)}, d{r.out(0), r.out(1), r.out(2), r.out(3)};
  if (!r.op.modules.empty()) in.skip = r.module().vector->detach(), d.skip = at::zeros_like(in.skip);
  delta_rule_gradients(in, r.in(0), delta_heads_of(r.op.attributes), r.batch.cu_seqlens, d);
  if (!r.op.modules.empty()) add_gradient(r.module().weight, d.skip);
}

// Cuts what regroup and latent_heads write side by side.
Tensors thirds(const Run& r, const at::Tensor& whole) {
  const Attributes& a = r.op.attributes;
  return whole.split_with_sizes({a.heads * a.head_dim, a.kv_heads * a.head_dim, a.kv_heads * a.head_dim}, 1);
}

// The gradient of an op that only moves or turns what it reads does not depend on that.
void of_zeros(const Run& r, OpKind kind) {
  Op op = r.op;
  op.kind = kind;
  Tensors zeros;
  for (size_t i = 0; i < r.op.out.size(); ++i) zeros.push_back(at::zeros_like(r.out(i)));
  const OpCall call = call_of(r, op, r.model.type);
  const Tensors d = kind == &ops::regroup || kind == &ops::latent_heads ? thirds(r, r.in(0)) : inputs_of(r);
  const Tensors grads = pulled(zeros, [&](const Tensors& x) { return computed(call, x); }, d);
  for (size_t i = 0; i < grads.size(); ++i) r.give(i, grads[i]);
}

void route_backward(const Run& r) {
  Op op = r.op;
  op.kind = &ops::route;
  const OpCall call = call_of(r, op, r.type(r.op.in[1]));
  const bool balanced = r.step.balance_slope != nullptr;
  Tensors d{r.in(0)};
  if (balanced)
    d.push_back(at::from_blob(const_cast<float*>(r.step.balance_slope), {r.m.width(r.op.in[1])}, at::TensorOptions(r.model.device).dtype(at::kFloat)));
  const auto routed = [&](const Tensors& x) {
    const Tensors made = computed(call, x);
    return balanced ? Tensors{made[0], made[3]} : Tensors{made[0]};
  };
  r.give(0, pulled({r.in(1)}, routed, d)[0]);
}

void scale_weights_backward(const Run& r) {
  Op op = r.op;
  op.kind = &ops::scale_weights;
  const OpCall call = call_of(r, op, r.type(r.op.in[1]));
  const at::Tensor order = order_of(r, r.op.in[2]), ends = ends_of(r, r.op.in[3]);
  const auto scaled = [&](const Tensors& x) { return computed(call, {x[0], order, ends}); };
  r.give(0, pulled({r.in(1)}, scaled, {r.in(0)}, trained({r.module().weight}))[0]);
}

void combine_backward(const Run& r) {
  const at::Tensor order = order_of(r, r.op.in[2]);
  const Tensors grads =
      pulled({expert_rows(r, r.in(1)), r.in(3)}, [&](const Tensors& x) { return Tensors{forge::combine(x[0], order, x[1])}; }, {r.in(0)});
  r.give(0, grads[0]), r.give(1, grads[1]);
}

void dispatch_backward(const Run& r) {
  const at::Tensor order = order_of(r, r.op.in[1]);
  r.give(0, pulled({at::zeros_like(r.out(0))}, [&](const Tensors& x) { return Tensors{forge::dispatch(x[0], order)}; },
                   {expert_rows(r, r.in(0))})[0]);
}

// ---- linear layers ----

// Writes each module's columns, and s, which the gradient of B reads.
void linear(const Run& r) {
  const Tensors y = by_module(r, r.out(0));
  const RowKeys* rows = r.batch.dropout_rows(r.of_source());
  size_t adapter = 0;
  for (size_t i = 0; i < y.size(); ++i)
    if (const at::Tensor s = linear_into(y[i], *r.module(i).linear, r.in(0), rows); s.defined()) r.out(++adapter).copy_(s);
}

void linear_input_gradient(const Run& r) {
  const Tensors d_y = by_module(r, r.in(0));
  at::Tensor sum = r.op.attributes.accumulate ? at::Tensor() : r.out(0);
  for (size_t i = 0; i < d_y.size(); ++i) {
    const at::Tensor weight = base_weight(*r.module(i).linear, r.model.type);
    if (i > 0)
      sum.add_(at::mm(d_y[i], weight));
    else if (sum.defined())
      at::mm_out(sum, d_y[i], weight);
    else
      sum = at::mm(d_y[i], weight);
  }
  if (r.op.attributes.accumulate) r.give(0, sum);
}

void linear_weight_gradient(const Run& r) {
  const Tensors d_y = by_module(r, r.in(0));
  for (size_t i = 0; i < d_y.size(); ++i) {
    if (r.module(i).weight) add_gradient(r.module(i).weight, at::mm(d_y[i].t(), r.in(1)));
    if (r.module(i).bias) add_gradient(r.module(i).bias, d_y[i].sum(0));
  }
}

// Returns the gradient of x under y = scale · s Bᵀ, s = drop(x) Aᵀ, and adds those of A and B. It
// has the formulas that autograd has for the sum in place that unscaled_linear() makes.
at::Tensor through_adapter(const Run& r, const BoundModule& module, const at::Tensor& x, const at::Tensor& s, const at::Tensor& d_y) {
  const LinearSpec& spec = *module.linear;
  const RowKeys* rows = r.batch.dropout_rows(r.of_source());
  const auto drop = [&](const Tensors& in) { return Tensors{counter_dropout(in[0], spec.dropout, spec.dropout_stream, *rows)}; };
  const at::Tensor dropped = rows ? drop({x})[0] : x;
  const at::Tensor d_s = at::mm(d_y, spec.lora_b).mul_(spec.scale);
  add_gradient(module.lora_b, at::mm(d_y.t(), s.to(d_y.scalar_type())).mul_(spec.scale));
  add_gradient(module.lora_a, at::mm(d_s.t(), dropped));
  const at::Tensor d_dropped = at::mm(d_s, spec.lora_a);
  return rows ? pulled({x}, drop, {d_dropped})[0] : d_dropped;
}

void adapter_gradient(const Run& r) {
  const Tensors d_y = by_module(r, r.in(0));
  at::Tensor sum;
  size_t adapter = 0;
  for (size_t i = 0; i < d_y.size(); ++i) {
    if (!r.module(i).lora_a) continue;
    const at::Tensor d_x = through_adapter(r, r.module(i), r.in(1), r.in(2 + adapter++), d_y[i]);
    sum = sum.defined() ? sum.add_(d_x) : d_x;
  }
  if (!r.op.out.empty()) r.give(0, sum);
}

void dora_backward(const Run& r) {
  const Tensors d_y = by_module(r, r.in(0)), x = by_module(r, r.in(1));
  Tensors d_x;
  for (size_t i = 0; i < d_y.size(); ++i) {
    const BoundModule& module = r.module(i);
    d_x.push_back(pulled({x[i]}, [&](const Tensors& in) { return Tensors{rescaled(*module.linear, in[0])}; }, {d_y[i]}, trained({module.magnitude}))[0]);
  }
  // The results may lie where d y does.
  for (size_t i = 0; i < d_x.size(); ++i) r.out(i).copy_(d_x[i]);
}

// ---- experts' layers ----

void each_expert(const at::Tensor& ends, const std::function<void(size_t expert, int64_t begin, int64_t count)>& visit) {
  for (int64_t expert = 0, begin = 0; expert < ends.size(0); ++expert) {
    const int64_t end = ends.const_data_ptr<int64_t>()[expert];
    if (end > begin) visit(static_cast<size_t>(expert), begin, end - begin);
    begin = end;
  }
}
bool joined(const Run& r) { return r.m.graph.module(r.op).experts > 0; }
// True if an expert's matrix is [in, out].
bool in_first(const Run& r) { return joined(r) && !r.m.graph.module(r.op).out_first; }

// Returns an expert's weight without its adapter, [out, in].
at::Tensor expert_weight(const Run& r, size_t expert) {
  if (!joined(r)) return base_weight(*r.module(expert).linear, r.model.type);
  const at::Tensor own = base_weight(*r.module().linear, r.model.type).select(0, static_cast<int64_t>(expert));
  return in_first(r) ? own.t() : own;
}

void expert_input_gradient(const Run& r) {
  const at::Tensor d_y = expert_rows(r, r.in(0)), ends = ends_of(r, r.op.in[1]);
  const int64_t width = r.m.width(r.op.out[0]) / r.op.attributes.route.per_token;
  at::Tensor d_x = at::empty({d_y.size(0), width}, d_y.options());
  each_expert(ends, [&](size_t expert, int64_t begin, int64_t count) {
    d_x.narrow(0, begin, count).copy_(at::mm(d_y.narrow(0, begin, count), expert_weight(r, expert)));
  });
  r.give(0, d_x);
}

void expert_weight_gradient(const Run& r) {
  const at::Tensor d_y = expert_rows(r, r.in(0)), x = expert_rows(r, r.in(1));
  each_expert(ends_of(r, r.op.in[2]), [&](size_t expert, int64_t begin, int64_t count) {
    const BoundModule& module = r.module(joined(r) ? 0 : expert);
    const at::Tensor of_y = d_y.narrow(0, begin, count), of_x = x.narrow(0, begin, count);
    const auto add = [&](Trainable* item, const at::Tensor& gradient) {
      if (!item) return;
      at::Tensor place = joined(r) ? item->grad.select(0, static_cast<int64_t>(expert)) : item->grad;
      place.add_(gradient.to(place.scalar_type()));
    };
    if (module.weight) add(module.weight, in_first(r) ? at::mm(of_x.t(), of_y) : at::mm(of_y.t(), of_x));
    if (module.bias) add(module.bias, of_y.sum(0));
  });
}

// Pulls the gradients of the whole layer, and gives of d x what the adapters add to that of the
// weights.
void expert_adapter_gradient(const Run& r) {
  const at::Tensor d_y = expert_rows(r, r.in(0)), x = expert_rows(r, r.in(1)), ends = ends_of(r, r.op.in[3]), order = order_of(r, r.op.in[4]);
  std::vector<Trainable*> items;
  for (size_t i = 0; i < r.op.modules.size(); ++i) items.insert(items.end(), {r.module(i).lora_a, r.module(i).lora_b, r.module(i).magnitude});
  Op layer = r.op;
  layer.kind = &ops::expert_linear;
  const OpCall call = call_of(r, layer, r.model.type);
  const at::Tensor d_x = pulled({x}, [&](const Tensors& in) { return computed(call, {in[0], ends, order}); }, {d_y}, trained(items))[0];
  if (r.op.out.empty()) return;
  if (!rescaled_experts(r.m.graph, r.op))
    each_expert(ends, [&](size_t expert, int64_t begin, int64_t count) {
      d_x.narrow(0, begin, count).sub_(at::mm(d_y.narrow(0, begin, count), expert_weight(r, expert)));
    });
  r.give(0, d_x);
}

// ---- rows ----

// Turns the gradients back: by the angles' negatives.
void rope_backward(const Run& r) {
  const RopeLayout layout = r.op.attributes.interleaved ? RopeLayout::interleaved : RopeLayout::half_split;
  for (size_t i = 0; i < r.op.out.size(); ++i) {
    const RopeTables& angles = angles_of(r.op, i, r.batch);
    r.give(i, forge::rope(heads(r, r.in(i)), angles.cos, angles.sin.neg(), layout));
  }
}

void embed_backward(const Run& r) {
  const Attributes& a = r.op.attributes;
  at::Tensor table = r.module().weight->grad;
  const at::Tensor row = a.frozen_row < 0 ? at::Tensor() : table[a.frozen_row], before = row.defined() ? row.clone() : row;
  const at::Tensor d_h = r.in(0);
  table.index_add_(0, rows_read(r.op, r.of_source(), r.batch), d_h.to(at::kFloat), rounded(a.scale, d_h.scalar_type()));
  if (row.defined()) row.copy_(before);  // the gradient that a tied head has added to it stays
}

void scatter(const Run& r) {
  r.out(0).zero_();
  r.out(0).index_copy_(0, r.batch.loss_positions, r.in(0));
}

void add_gradient_rows(const Run& r) { r.out(0).copy_(r.in(0) + r.in(1)); }
void scale_backward(const Run& r) {
  r.give(0, r.op.modules.empty() ? r.in(0) * r.op.attributes.scale : r.in(0) * *r.module().vector);
}
void scale_parts_backward(const Run& r) { r.give(0, scaled_parts(r.in(0), *r.op.attributes.factors)); }
void cast_backward(const Run& r) { r.give(0, r.in(0).to(r.type(r.op.out[0]))); }

struct Row {
  OpKind kind;
  void (*run)(const Run&);
};
// The ops that are neither of a forward list nor the gradient that autograd makes of one, and
// attention, which goes group by group.
constexpr Row kOps[] = {
    {&ops::add_norm, add_norm},
    {&ops::linear, linear},
    {&ops::attention, attention},
    {&ops::attention_backward, attention_backward},
    {&ops::scatter, scatter},
    {&ops::add_gradient, add_gradient_rows},
    {&ops::cast_backward, cast_backward},
    {&ops::scale_backward, scale_backward},
    {&ops::scale_parts_backward, scale_parts_backward},
    {&ops::linear_input_gradient, linear_input_gradient},
    {&ops::linear_weight_gradient, linear_weight_gradient},
    {&ops::adapter_gradient, adapter_gradient},
    {&ops::delta_rule_backward, delta_rule_backward},
    {&ops::dora_backward, dora_backward},
    {&ops::rope_backward, rope_backward},
    {&ops::regroup_backward, [](const Run& r) { of_zeros(r, &ops::regroup); }},
    {&ops::latent_heads_backward, [](const Run& r) { of_zeros(r, &ops::latent_heads); }},
    {&ops::trim_heads_backward, [](const Run& r) { of_zeros(r, &ops::trim_heads); }},
    {&ops::split_groups_backward, [](const Run& r) { of_zeros(r, &ops::split_groups); }},
    {&ops::route_backward, route_backward},
    {&ops::short_conv_backward, short_conv_backward},
    {&ops::state_space_backward, delta_rule_backward},
    {&ops::scale_weights_backward, scale_weights_backward},
    {&ops::dispatch_backward, dispatch_backward},
    {&ops::combine_backward, combine_backward},
    {&ops::expert_input_gradient, expert_input_gradient},
    {&ops::expert_weight_gradient, expert_weight_gradient},
    {&ops::expert_adapter_gradient, expert_adapter_gradient},
    {&ops::embed_backward, embed_backward},
};

// Keeps autograd in the calling thread: another would have workspaces of its own.
class OneThread {
 public:
  OneThread() { c10::AutogradState::get_tls_state().set_multithreading_enabled(false); }
  ~OneThread() { c10::AutogradState::get_tls_state().set_multithreading_enabled(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const bool before_ = c10::AutogradState::get_tls_state().get_multithreading_enabled();
};

}  // namespace

StepMemory memory_of(const Graph& list, const Model& model, const ComputeDevice& device, bool aten) {
  const Element type = element_of(model.type);
  StepMemory m{.graph = list, .capacity = sizes_on(device, bytes_of(type)), .type = type};
  m.capacity.deterministic = at::globalContext().deterministicAlgorithms(), m.capacity.aten = aten;
  if (asks_aten(list, m.capacity))
    for (const Op& op : list.ops) m.by_aten.push_back(!aten_reason(list, op, m.capacity).empty());
  return m;
}

at::Tensor tensor_of(const StepMemory& m, ValueId id, c10::Device device) {
  return at::from_blob(m.data(id), {m.rows(id), m.width(id)}, {m.stride(id), 1}, at::TensorOptions(device).dtype(scalar_of(m.element(id))));
}

void AtenOps::run(const StepMemory& m, const Op& op, const BatchTensors& batch, const StepBatch& step) const {
  c10::NoGradGuard no_grad;
  const OneThread one_thread;
  const auto* row = std::find_if(std::begin(kOps), std::end(kOps), [&](const Row& known) { return known.kind == op.kind; });
  const Run r{model_, m, op, modules_, batch, step};
  for (ValueId id : op.in) m.touch(device_, id, /*writes=*/false);
  if (row != std::end(kOps))
    row->run(r);
  else
    op.kind->gradient_of.op ? by_autograd(r) : forward(r);
  for (ValueId id : op.out) m.touch(device_, id, /*writes=*/true);
}

}  // namespace forge
