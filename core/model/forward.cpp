#include "core/model/forward.h"

#include <ATen/ATen.h>

#include "core/lib/base/error.h"
#include "core/model/functions.h"
#include "core/model/graph/ops.h"
#include "kernels/activation/activation.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rope/rope.h"
#include "kernels/swiglu/swiglu.h"

namespace forge {
namespace {

// Op that is executed, and its run.
struct Run {
  ForwardRun& run;
  const Op& op;

  const at::Tensor& in(size_t i) const { return run.values[static_cast<size_t>(op.in[i])]; }
  at::Tensor& out(size_t i) const { return run.values[static_cast<size_t>(op.out[i])]; }
  const BoundModule& module(size_t i = 0) const { return run.modules[static_cast<size_t>(op.modules[i])]; }
  // Returns the type of a value, which is fp32 for a stream kept in fp32 where the rest is not.
  c10::ScalarType type(ValueId value) const {
    return run.graph.buffer_of(value).type == ValueType::compute ? run.model.type : at::kFloat;
  }
  // Returns [tokens, width / head_dim, head_dim] of [tokens, width].
  at::Tensor heads(size_t i) const {
    const int64_t d = op.attributes.head_dim;
    return in(i).reshape({in(i).size(0), in(i).size(1) / d, d});
  }
};

void embed(const Run& r) {
  const c10::ScalarType type = r.type(r.op.out[0]);
  r.out(0) = at::embedding(*r.module().vector, rows_read(r.run.graph, r.op, r.run.batch)).to(type);
  if (r.op.attributes.scale != 1) r.out(0) = r.out(0) * rounded(r.op.attributes.scale, type);
}

// Computes one result for each module; or one module's, cut into columns.
template <class Result>
void each_module(const Run& r, Result result) {
  const auto part = [&](size_t i) -> at::Tensor& { return r.run.values[static_cast<size_t>(r.op.parts[i])]; };
  if (r.op.parts.size() == r.op.modules.size()) {
    for (size_t i = 0; i < r.op.modules.size(); ++i) part(i) = result(i);
    return;
  }
  const at::Tensor whole = result(0);
  for (size_t i = 0, column = 0; i < r.op.parts.size(); ++i) {
    const int64_t width = r.run.graph.value(r.op.parts[i]).width;
    part(i) = whole.narrow(1, static_cast<int64_t>(column), width);
    column += static_cast<size_t>(width);
  }
}

void linear(const Run& r) {
  const auto compute = r.op.attributes.unscaled ? unscaled_linear : forge::linear;
  const bool of_source = r.run.graph.buffer_of(r.op.in[0]).rows == Rows::source;
  each_module(r, [&](size_t i) { return compute(*r.module(i).linear, r.in(0), r.run.batch.dropout_rows(of_source)); });
}

// Rescales each module's previous result, which nothing else reads.
void dora(const Run& r) {
  const Op& made =
      r.run.graph.ops[static_cast<size_t>(r.run.graph.producers[static_cast<size_t>(r.op.in[0])])];
  each_module(r, [&](size_t i) {
    return rescaled(*r.module(i).linear, std::move(r.run.values[static_cast<size_t>(made.parts[i])]));
  });
}

// Normalizes each head by itself if the weight is as wide as a head.
void norm(const Run& r) {
  const at::Tensor& x = r.in(0);
  const at::Tensor rows = x.reshape({-1, r.op.attributes.head_dim});
  const Attributes& a = r.op.attributes;
  r.out(0) = rms_norm(rows, *r.module().vector, a.eps, a.weight_offset, r.type(r.op.out[0])).view(x.sizes());
}

void layer_norm(const Run& r) {
  const at::Tensor bias = r.module().vector_bias ? *r.module().vector_bias : at::Tensor();
  r.out(0) = forge::layer_norm(r.in(0), *r.module().vector, bias, r.op.attributes.eps, r.type(r.op.out[0]));
}

void regroup(const Run& r) {
  const Attributes& a = r.op.attributes;
  const int64_t shared = a.heads / a.kv_heads;  // heads of q in a group
  const at::Tensor groups = r.in(0).reshape({r.in(0).size(0), a.kv_heads, shared + 2, a.head_dim});
  const int64_t first[] = {0, shared, shared + 1}, count[] = {shared, 1, 1};
  for (size_t i = 0; i < 3; ++i)
    r.run.values[static_cast<size_t>(r.op.parts[i])] = groups.narrow(2, first[i], count[i]).flatten(1);
}

void attention(const Run& r) {
  const Attributes& a = r.op.attributes;
  AttentionRule rule{.scale = a.scale, .softcap = a.softcap, .window = a.window};
  rule.causal = a.sight == Sight::causal;
  if (a.position_distance > 0)
    rule.position_table = *r.module().vector, rule.position_distance = a.position_distance;
  else if (!r.op.modules.empty())
    rule.sinks = *r.module().vector;
  r.out(0) = r.run.attend(r.op, rule, r.heads(0), r.heads(1), r.heads(2));
}

void latent_heads(const Run& r) {
  const Attributes& a = r.op.attributes;
  const int64_t tokens = r.in(0).size(0), still = a.head_dim - a.rope_dim;  // features that are not turned
  const std::vector<at::Tensor> q = r.heads(0).split_with_sizes({still, a.rope_dim}, 2);
  const std::vector<at::Tensor> kv = r.in(1).view({tokens, a.heads, -1}).split_with_sizes({still, a.value_dim}, 2);
  const at::Tensor key = r.in(2).unsqueeze(1).expand({tokens, a.heads, a.rope_dim});
  const at::Tensor heads[] = {at::cat({q[1], q[0]}, 2), at::cat({key, kv[0]}, 2),
                              at::constant_pad_nd(kv[1], {0, a.head_dim - a.value_dim})};
  for (size_t i = 0; i < 3; ++i) r.run.values[static_cast<size_t>(r.op.parts[i])] = heads[i].flatten(1);
}

void route(const Run& r) {
  const at::Tensor correction = r.op.modules.empty() ? at::Tensor() : *r.module().vector;
  Routed routed = forge::route(r.in(0), rule_of(r.op.attributes.route), correction);
  r.out(0) = routed.weights, r.out(1) = routed.order, r.out(2) = routed.ends;
  if (r.op.out.size() > 3) r.out(3) = routed.probability;
}

void glu(const Run& r) {
  const Attributes& a = r.op.attributes;
  r.out(0) = a.gate == GateKind::clamped ? clamped_swiglu(r.in(0), a.gate_limit, a.gate_alpha)
                                         : swiglu(r.in(0), r.in(1), function_of(a.gate));
}

// Returns the dropout keys of rows that tokens were copied to. `tokens` is on the host.
RowKeys keys_of(const RowKeys& all, const int64_t* tokens, int64_t count) {
  RowKeys keys{.seed = all.seed, .step = all.step};
  for (int64_t i = 0; i < count; ++i) {
    keys.example.push_back(all.example[static_cast<size_t>(tokens[i])]);
    keys.position.push_back(all.position[static_cast<size_t>(tokens[i])]);
  }
  return keys;
}

// Multiplies by the weights of all experts, which are in one tensor.
void joined_expert_linear(const Run& r) {
  const int64_t* ends = r.in(1).data_ptr<int64_t>();
  std::vector<int64_t> counts;
  for (int64_t expert = 0; expert < r.in(1).size(0); ++expert) counts.push_back(ends[expert] - (expert == 0 ? 0 : ends[expert - 1]));
  r.out(0) = forge::joined_linear(*r.module().linear, r.in(0), counts);
}

// Multiplies each expert's rows by its own weights. An expert without rows takes no part, not even
// in the backward.
void expert_linear(const Run& r) {
  if (r.run.graph.module(r.op).experts > 0) return joined_expert_linear(r);
  const int64_t* ends = r.in(1).data_ptr<int64_t>();
  bool drops = false;
  for (size_t expert = 0; expert < r.op.modules.size(); ++expert) drops |= r.module(expert).linear->dropout > 0;
  const RowKeys* all = drops ? r.run.batch.dropout_rows() : nullptr;
  const at::Tensor tokens =
      all ? r.run.values[static_cast<size_t>(r.op.in[2])].div(r.op.attributes.route.per_token, "floor").cpu() : at::Tensor();
  std::vector<int64_t> counts;
  for (size_t expert = 0; expert < r.op.modules.size(); ++expert)
    counts.push_back(ends[expert] - (expert == 0 ? 0 : ends[expert - 1]));
  const std::vector<at::Tensor> rows = r.in(0).split_with_sizes(counts);
  std::vector<at::Tensor> results;
  for (size_t expert = 0; expert < rows.size(); ++expert) {
    if (counts[expert] == 0) continue;
    const RowKeys keys = all ? keys_of(*all, tokens.data_ptr<int64_t>() + ends[expert] - counts[expert], counts[expert]) : RowKeys();
    results.push_back(forge::linear(*r.module(expert).linear, rows[expert], all ? &keys : nullptr));
  }
  r.out(0) = at::cat(results);
}

void rope(const Run& r) {
  const RopeTables& angles = r.run.batch.angles(r.op.attributes.window_angles);
  const RopeLayout layout = r.op.attributes.interleaved ? RopeLayout::interleaved : RopeLayout::half_split;
  for (size_t i = 0; i < r.op.in.size(); ++i)
    r.out(i) = forge::rope(r.heads(i), angles.cos, angles.sin, layout).reshape(r.in(i).sizes());
}

void run_op(const Run& r) {
  switch (r.op.kind) {
    case OpKind::embed:
      return embed(r);
    case OpKind::gather:
      r.out(0) = r.in(0).index_select(0, r.run.batch.loss_positions);
      return;
    case OpKind::add:  // in the wider type
      r.out(0) = r.in(0) + r.in(1);
      return;
    case OpKind::cast:
      r.out(0) = r.in(0).to(r.type(r.op.out[0]));
      return;
    case OpKind::scale:
      r.out(0) = r.in(0) * r.op.attributes.scale;
      return;
    case OpKind::norm:
      return norm(r);
    case OpKind::layer_norm:
      return layer_norm(r);
    case OpKind::linear:
      return linear(r);
    case OpKind::dora_ratio:  // part of `rescaled`
      return;
    case OpKind::dora:
      return dora(r);
    case OpKind::rope:
      return rope(r);
    case OpKind::attention:
      return attention(r);
    case OpKind::latent_heads:
      return latent_heads(r);
    case OpKind::trim_heads:
      r.out(0) = r.heads(0).narrow(2, 0, r.op.attributes.value_dim).flatten(1);
      return;
    case OpKind::regroup:
      return regroup(r);
    case OpKind::activation:
      r.out(0) = r.op.attributes.activation == ActivationKind::relu ? at::relu(r.in(0))
                                                                     : activation(r.in(0), function_of(r.op.attributes.activation));
      return;
    case OpKind::gate_rows:
      r.out(0) = r.in(0) * at::sigmoid(r.in(1));
      return;
    case OpKind::route:
      return route(r);
    case OpKind::dispatch:
      r.out(0) = forge::dispatch(r.in(0), r.in(1));
      return;
    case OpKind::expert_linear:
      return expert_linear(r);
    case OpKind::combine:
      r.out(0) = forge::combine(r.in(0), r.in(1), r.in(2));
      return;
    case OpKind::glu:
      return glu(r);
    default:
      FORGE_CHECK(false, name_of(r.op.kind) << " is not an op of a forward list");
  }
}

}  // namespace

at::Tensor rows_read(const Graph& graph, const Op& embed, const BatchTensors& batch) {
  const bool source = graph.buffer_of(embed.out[0]).rows == Rows::source;
  if (!embed.attributes.by_position) return source ? batch.source.token_ids : batch.token_ids;
  const at::Tensor& positions = source ? batch.source.position_ids : batch.position_ids;
  return embed.attributes.position_offset == 0 ? positions : positions + embed.attributes.position_offset;
}

double rounded(double scale, c10::ScalarType type) {
  const auto narrow = static_cast<float>(scale);
  if (type == c10::ScalarType::BFloat16) return static_cast<float>(at::BFloat16(narrow));
  if (type == c10::ScalarType::Half) return static_cast<float>(at::Half(narrow));
  return narrow;
}

Attend packed_attend(const BatchTensors& batch) {
  return [&batch](const Op& op, const AttentionRule& rule, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    const Sight sight = op.attributes.sight;
    if (!batch.source.groups.texts.empty())
      return grouped_attention(q, k, v, sight == Sight::whole ? batch.source.groups : batch.source.answer_groups,
                               sight == Sight::causal ? batch.source.answer_groups : batch.source.groups, rule);
    return cross_attention(q, k, v, sight == Sight::whole ? batch.source.cu_seqlens : batch.cu_seqlens,
                           sight == Sight::causal ? batch.cu_seqlens : batch.source.cu_seqlens, rule);
  };
}

void run_ops(ForwardRun& run, const std::vector<size_t>& ops) {
  for (size_t i : ops) run_op({run, run.graph.ops[i]});
}

void run_forward(ForwardRun& run, size_t begin, size_t end, ValueId result) {
  std::vector<size_t> last(run.values.size(), 0);
  for (size_t i = begin; i < end; ++i)
    for (ValueId in : run.graph.ops[i].in) last[static_cast<size_t>(in)] = i;
  for (size_t i = begin; i < end; ++i) {
    const Op& op = run.graph.ops[i];
    if (run.watch && op.kind == OpKind::linear) run.watch(i, run.values[static_cast<size_t>(op.in[0])]);
    run_op({run, op});
    for (ValueId in : op.in)
      if (in != result && last[static_cast<size_t>(in)] == i && run.graph.buffer_of(in).rows != Rows::one)
        run.values[static_cast<size_t>(in)] = at::Tensor();
  }
}

}  // namespace forge
