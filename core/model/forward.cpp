#include "core/model/forward.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "core/graph/op_record.h"
#include "core/lib/base/error.h"
#include "kernels/activation/activation.h"
#include "kernels/activation/activation_op.h"
#include "kernels/attention/attention_op.h"
#include "kernels/call/functions.h"
#include "kernels/delta_rule/delta_rule.h"
#include "kernels/dora/dora_op.h"
#include "kernels/embedding/embedding_op.h"
#include "kernels/experts/expert_linear_op.h"
#include "kernels/experts/experts_op.h"
#include "kernels/latent/heads_op.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/layer_norm/layer_norm_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rms_norm/norm_op.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rope/rope.h"
#include "kernels/rope/rope_op.h"
#include "kernels/rows/rows_op.h"
#include "kernels/short_conv/short_conv.h"
#include "kernels/short_conv/short_conv_op.h"
#include "kernels/swiglu/glu_op.h"
#include "kernels/swiglu/swiglu.h"

namespace forge {
namespace {

using Tensors = std::vector<at::Tensor>;

// Returns [tokens, width / head_dim, head_dim] of [tokens, width].
at::Tensor heads(const OpCall& c, const at::Tensor& x) {
  const int64_t d = c.op.attributes.head_dim;
  return x.reshape({x.size(0), x.size(1) / d, d});
}

Tensors embed(const OpCall& c, const Tensors&) {
  const at::Tensor rows = at::embedding(*c.module().vector, rows_read(c.op, c.of_source, c.batch)).to(c.type);
  return {c.op.attributes.scale == 1 ? rows : rows * rounded(c.op.attributes.scale, c.type)};
}

// Cuts what one module made, or an op without modules, into the values that later ops read.
Tensors columns(const OpCall& c, const at::Tensor& whole) {
  Tensors parts;
  int64_t column = 0;
  for (ValueId part : c.op.parts) {
    const int64_t width = c.graph.value(part).width;
    parts.push_back(whole.narrow(1, column, width));
    column += width;
  }
  return parts;
}

Tensors linear(const OpCall& c, const Tensors& in) {
  const RowKeys* rows = c.batch.dropout_rows(c.of_source);
  Tensors results;
  for (size_t i = 0; i < c.op.modules.size(); ++i) {
    const LinearSpec& of = *c.module(i).linear;
    results.push_back(c.op.attributes.unscaled ? unscaled_linear(of, in[0], rows) : forge::linear(of, in[0], rows));
  }
  return c.op.parts.size() > results.size() ? columns(c, results[0]) : results;
}

// Rescales each module's previous result, which nothing else reads.
Tensors dora(const OpCall& c, const Tensors& in) {
  Tensors results;
  for (size_t i = 0; i < c.op.modules.size(); ++i) results.push_back(rescaled(*c.module(i).linear, in[i]));
  return c.op.parts.size() > results.size() ? columns(c, results[0]) : results;
}

// Normalizes each head by itself if the weight is as wide as a head.
Tensors norm(const OpCall& c, const Tensors& in) {
  const Attributes& a = c.op.attributes;
  const at::Tensor& weight = *c.module().vector;
  const int64_t heads = a.head_weights ? weight.numel() / a.head_dim : 1;
  return {rms_norm(in[0].reshape({-1, heads, a.head_dim}), weight.view({heads, a.head_dim}), a.eps, a.weight_offset, c.type).view(in[0].sizes())};
}

Tensors layer_norm(const OpCall& c, const Tensors& in) {
  const Attributes& a = c.op.attributes;
  if (c.op.modules.empty()) return {forge::layer_norm(in[0], {}, {}, a.eps, c.type)};
  const at::Tensor bias = c.module().vector_bias ? *c.module().vector_bias : at::Tensor();
  return {forge::layer_norm(in[0], *c.module().vector, bias, a.eps, c.type, a.weight_offset)};
}

Tensors regroup(const OpCall& c, const Tensors& in) {
  const Attributes& a = c.op.attributes;
  const int64_t shared = a.heads / a.kv_heads;  // heads of q in a group
  const at::Tensor groups = in[0].reshape({in[0].size(0), a.kv_heads, shared + 2, a.head_dim});
  const auto part = [&](int64_t first, int64_t count) { return groups.narrow(2, first, count).flatten(1); };
  return {part(0, shared), part(shared, 1), part(shared + 1, 1)};
}

Tensors attention(const OpCall& c, const Tensors& in) {
  return {c.attend(c.op, rule_of_attention(c), heads(c, in[0]), heads(c, in[1]), heads(c, in[2]))};
}

Tensors latent_heads(const OpCall& c, const Tensors& in) {
  const Attributes& a = c.op.attributes;
  const int64_t tokens = in[0].size(0), still = a.head_dim - a.rope_dim;  // features that are not turned
  const Tensors q = heads(c, in[0]).split_with_sizes({still, a.rope_dim}, 2);
  const Tensors kv = in[1].reshape({tokens, a.heads, -1}).split_with_sizes({still, a.value_dim}, 2);
  const at::Tensor key = in[2].unsqueeze(1).expand({tokens, a.heads, a.rope_dim});
  return {at::cat({q[1], q[0]}, 2).flatten(1), at::cat({key, kv[0]}, 2).flatten(1),
          at::constant_pad_nd(kv[1], {0, a.head_dim - a.value_dim}).flatten(1)};
}

Tensors split_groups(const OpCall& c, const Tensors& in) {
  const Attributes& a = c.op.attributes;
  Tensors parts = in[0].reshape({in[0].size(0), a.heads, -1}).split_with_sizes({a.head_dim, a.head_dim, a.value_dim, a.value_dim}, 2);
  for (at::Tensor& part : parts) part = part.flatten(1);
  const at::Tensor whole = at::cat(parts, 1);
  return c.op.parts.empty() ? Tensors{whole} : columns(c, whole);
}

Tensors scale_parts(const OpCall& c, const Tensors& in) {
  const at::Tensor whole = scaled_parts(in[0], *c.op.attributes.factors);
  return c.op.parts.empty() ? Tensors{whole} : columns(c, whole);
}
Tensors short_conv(const OpCall& c, const Tensors& in) {
  const at::Tensor bias = c.module().vector_bias ? *c.module().vector_bias : at::Tensor();
  const at::Tensor whole = forge::short_conv(in[0], *c.module().vector, bias, c.op.attributes.silu, c.batch.cu_seqlens);
  return c.op.parts.empty() ? Tensors{whole} : columns(c, whole);
}

Tensors route(const OpCall& c, const Tensors& in) {
  const at::Tensor correction = c.op.modules.empty() ? at::Tensor() : *c.module().vector;
  const Routed routed = forge::route(in[0], c.op.attributes.route, correction);
  Tensors results{routed.weights, routed.order, routed.ends};
  if (c.op.attributes.route.balance) results.push_back(routed.probability);
  return results;
}

// `in` are weights [tokens, experts of each], the place of each row in them, and where the experts'
// rows end, on the host.
Tensors scale_weights(const OpCall& c, const Tensors& in) {
  const at::Tensor rows = at::arange(in[1].size(0), at::kLong);
  const at::Tensor experts = at::empty_like(in[1]).index_put({in[1]}, at::bucketize(rows, in[2], /*out_int32=*/false, /*right=*/true).to(in[1].device()));
  return {in[0] * c.module().vector->to(at::kFloat).index_select(0, experts).view(in[0].sizes())};
}

Tensors glu(const OpCall& c, const Tensors& in) {
  const Attributes& a = c.op.attributes;
  if (a.gate_half > 0) {  // rows of several experts of a token may be side by side
    const Tensors halves = in[0].reshape({-1, 2 * a.gate_half}).chunk(2, 1);
    return {swiglu(halves[0], halves[1], function_of(a.gate)).reshape({in[0].size(0), in[0].size(1) / 2})};
  }
  return {a.gate == GateKind::clamped ? clamped_swiglu(in[0], a.gate_limit, a.gate_alpha)
                                      : swiglu(in[0], in[1], function_of(a.gate))};
}

Tensors activated(const OpCall& c, const Tensors& in) {
  const ActivationKind kind = c.op.attributes.activation;
  if (kind == ActivationKind::relu) return {at::relu(in[0])};
  return {activation(in[0], function_of(kind), c.op.attributes.limit)};
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

// Returns the number of rows of each expert. `ends` is on the host.
std::vector<int64_t> counts_of(const at::Tensor& ends) {
  std::vector<int64_t> counts;
  const auto* end = ends.const_data_ptr<int64_t>();
  for (int64_t expert = 0; expert < ends.size(0); ++expert) counts.push_back(end[expert] - (expert == 0 ? 0 : end[expert - 1]));
  return counts;
}

// Multiplies each expert's rows by its own weights. An expert without rows takes no part, not even
// in the backward.
Tensors expert_linear(const OpCall& c, const Tensors& in) {
  const std::vector<int64_t> counts = counts_of(in[1]);
  const ModuleUse& use = c.graph.module(c.op);
  if (use.experts > 0)
    return {forge::joined_linear(*c.module().linear, in[0], counts, use.out_first)};
  bool drops = false;
  for (size_t expert = 0; expert < c.op.modules.size(); ++expert) drops |= c.module(expert).linear->dropout > 0;
  const RowKeys* all = drops ? c.batch.dropout_rows() : nullptr;
  const at::Tensor tokens = all ? in[2].div(c.op.attributes.route.per_token, "floor").cpu() : at::Tensor();
  const Tensors rows = in[0].split_with_sizes(counts);
  Tensors results;
  int64_t first = 0;
  for (size_t expert = 0; expert < rows.size(); first += counts[expert++]) {
    if (counts[expert] == 0) continue;
    const RowKeys keys = all ? keys_of(*all, tokens.const_data_ptr<int64_t>() + first, counts[expert]) : RowKeys();
    results.push_back(forge::linear(*c.module(expert).linear, rows[expert], all ? &keys : nullptr));
  }
  return {at::cat(results)};
}

Tensors rope(const OpCall& c, const Tensors& in) {
  const RopeLayout layout = c.op.attributes.interleaved ? RopeLayout::interleaved : RopeLayout::half_split;
  Tensors turned;
  for (size_t i = 0; i < in.size(); ++i) {
    const RopeTables& angles = angles_of(c.op, i, c.batch);
    turned.push_back(forge::rope(heads(c, in[i]), angles.cos, angles.sin, layout).reshape(in[i].sizes()));
  }
  return turned;
}

struct Row {
  OpKind kind;
  Tensors (*compute)(const OpCall& call, const Tensors& in);
};
constexpr Row kOps[] = {
    {&ops::embed, embed},
    {&ops::gather, [](const OpCall& c, const Tensors& in) -> Tensors { return {in[0].index_select(0, c.batch.loss_positions)}; }},
    {&ops::add, [](const OpCall&, const Tensors& in) -> Tensors { return {in[0] + in[1]}; }},  // in the wider type
    {&ops::cast, [](const OpCall& c, const Tensors& in) -> Tensors { return {in[0].to(c.type)}; }},
    {&ops::scale,
     [](const OpCall& c, const Tensors& in) -> Tensors {
       return {c.op.modules.empty() ? in[0] * c.op.attributes.scale : in[0] * *c.module().vector};
     }},
    {&ops::scale_parts, scale_parts},
    {&ops::norm, norm},
    {&ops::unit_norm,
     [](const OpCall& c, const Tensors& in) -> Tensors {
       const at::Tensor x = heads(c, in[0]).to(at::kFloat);
       return {(x * at::rsqrt(x.square().mean({-1}, /*keepdim=*/true) + c.op.attributes.eps)).to(in[0].scalar_type()).reshape(in[0].sizes())};
     }},
    {&ops::weigh_rows, [](const OpCall&, const Tensors& in) -> Tensors { return {in[0] * in[1].to(in[0].scalar_type())}; }},
    {&ops::layer_norm, layer_norm},
    {&ops::linear, linear},
    {&ops::dora_ratio, [](const OpCall&, const Tensors&) -> Tensors { return {}; }},  // part of `rescaled`
    {&ops::dora, dora},
    {&ops::rope, rope},
    {&ops::attention, attention},
    {&ops::latent_heads, latent_heads},
    {&ops::trim_heads,
     [](const OpCall& c, const Tensors& in) -> Tensors { return {heads(c, in[0]).narrow(2, 0, c.op.attributes.value_dim).flatten(1)}; }},
    {&ops::regroup, regroup},
    {&ops::split_groups, split_groups},
    {&ops::short_conv, short_conv},
    {&ops::delta_gates,
     [](const OpCall& c, const Tensors& in) -> Tensors { return {delta_gates(in[0], in[1], *c.module(0).vector, *c.module(1).vector)}; }},
    {&ops::delta_rule,
     [](const OpCall& c, const Tensors& in) -> Tensors {
       return {delta_rule(in[0], in[1], in[2], in[3], delta_heads_of(c.op.attributes), c.batch.cu_seqlens)};
     }},
    {&ops::step_gates,
     [](const OpCall& c, const Tensors& in) -> Tensors {
       return {step_gates(in[0], *c.module(0).vector, *c.module(1).vector, c.op.attributes.least_step)};
     }},
    {&ops::state_space,
     [](const OpCall& c, const Tensors& in) -> Tensors {
       return {delta_rule(in[0], in[1], in[2], in[3], delta_heads_of(c.op.attributes), c.batch.cu_seqlens, nullptr, *c.module(0).vector)};
     }},
    {&ops::activation, activated},
    {&ops::gate_rows, [](const OpCall&, const Tensors& in) -> Tensors { return {in[0] * at::sigmoid(in[1])}; }},
    {&ops::route, route},
    {&ops::scale_weights, scale_weights},
    {&ops::dispatch, [](const OpCall&, const Tensors& in) -> Tensors { return {forge::dispatch(in[0], in[1])}; }},
    {&ops::expert_linear, expert_linear},
    {&ops::combine, [](const OpCall&, const Tensors& in) -> Tensors { return {forge::combine(in[0], in[1], in[2])}; }},
    {&ops::collect,
     [](const OpCall& c, const Tensors& in) -> Tensors {
       const int64_t per_token = c.op.attributes.route.per_token;
       return {forge::combine(in[0], in[1], at::ones({in[0].size(0) / per_token, per_token}, in[0].options().dtype(at::kFloat)))};
     }},
    {&ops::glu, glu},
};

bool of_source(const Graph& graph, const Op& op) {
  return graph.buffer_of(op.in.empty() ? op.out[0] : op.in[0]).rows == Rows::source;
}

// Runs an op of the list. Values that a dora op rescales are freed before it has made its own.
void run_op(ForwardRun& run, const Op& op) {
  const auto value = [&](ValueId id) -> at::Tensor& { return run.values[static_cast<size_t>(id)]; };
  const auto type = run.graph.buffer_of(op.out.empty() ? op.in[0] : op.out[0]).type;
  const OpCall call{run.graph, op, run.modules, run.batch, run.attend, of_source(run.graph, op),
                    type == ValueType::compute ? run.model.type : at::kFloat};
  Tensors in;
  if (op.kind == &ops::dora) {
    const auto made = static_cast<size_t>(run.graph.producers[static_cast<size_t>(op.in[0])]);
    for (ValueId part : run.graph.ops[made].parts) in.push_back(std::move(value(part)));
  } else {
    for (ValueId id : op.in) in.push_back(value(id));
  }
  Tensors made = computed(call, in);
  if (made.size() == 1 && op.parts.size() > 1) made = columns(call, made[0]);
  const std::vector<ValueId>& results = op.parts.empty() ? op.out : op.parts;
  for (size_t i = 0; i < made.size(); ++i) value(results[i]) = std::move(made[i]);
}

}  // namespace

std::vector<at::Tensor> computed(const OpCall& call, const std::vector<at::Tensor>& in) {
  const auto* row = std::find_if(std::begin(kOps), std::end(kOps), [&](const Row& op) { return op.kind == call.op.kind; });
  FORGE_CHECK(row != std::end(kOps), name_of(call.op.kind) << " is not an op of a forward list");
  return row->compute(call, in);
}

AttentionRule rule_of_attention(const OpCall& call) {
  const Attributes& a = call.op.attributes;
  AttentionRule rule{.scale = a.scale, .softcap = a.softcap, .window = a.window};
  rule.causal = a.sight == Sight::causal, rule.alibi = a.alibi;
  if (a.position_distance > 0)
    rule.position_table = *call.module().vector, rule.position_distance = a.position_distance;
  else if (!call.op.modules.empty())
    rule.sinks = *call.module().vector;
  return rule;
}

const RopeTables& angles_of(const Op& rope, size_t input, const BatchTensors& batch) {
  const bool grown = rope.attributes.grown_queries && input == 0;
  return grown ? batch.grown_rope : batch.angles(rope.attributes.window_angles);
}

at::Tensor rows_read(const Op& embed, bool source, const BatchTensors& batch) {
  if (!embed.attributes.by_position) return source ? batch.source.token_ids : batch.token_ids;
  const at::Tensor& positions = source ? batch.source.position_ids : batch.position_ids;
  return embed.attributes.position_offset == 0 ? positions : positions + embed.attributes.position_offset;
}

at::Tensor scaled_parts(const at::Tensor& x, const PartFactors& factors) {
  std::vector<at::Tensor> parts;
  int64_t column = 0;
  for (const auto& [width, factor] : factors) parts.push_back(x.narrow(1, column, width) * factor), column += width;
  return at::cat(parts, 1);
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
    const std::vector<int32_t>& texts = op.attributes.chunk > 0 ? batch.chunk_cu_seqlens : batch.cu_seqlens;
    return cross_attention(q, k, v, sight == Sight::whole ? batch.source.cu_seqlens : texts,
                           sight == Sight::causal ? texts : batch.source.cu_seqlens, rule);
  };
}

void run_ops(ForwardRun& run, const std::vector<size_t>& ops) {
  for (size_t i : ops) run_op(run, run.graph.ops[i]);
}

void run_forward(ForwardRun& run, size_t begin, size_t end, ValueId result) {
  std::vector<size_t> last(run.values.size(), 0);
  for (size_t i = begin; i < end; ++i)
    for (ValueId in : run.graph.ops[i].in) last[static_cast<size_t>(in)] = i;
  for (size_t i = begin; i < end; ++i) {
    const Op& op = run.graph.ops[i];
    if (run.watch && op.kind == &ops::linear) run.watch(i, run.values[static_cast<size_t>(op.in[0])]);
    run_op(run, op);
    for (ValueId in : op.in)
      if (in != result && last[static_cast<size_t>(in)] == i && run.graph.buffer_of(in).rows != Rows::one)
        run.values[static_cast<size_t>(in)] = at::Tensor();
  }
}

}  // namespace forge
