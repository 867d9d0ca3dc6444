#include "core/model/graph/recorder.h"

#include <algorithm>

#include "core/lib/base/error.h"
#include "kernels/activation/activation_op.h"
#include "kernels/attention/attention_op.h"
#include "kernels/dora/dora_op.h"
#include "kernels/embedding/embedding_op.h"
#include "kernels/experts/expert_linear_op.h"
#include "kernels/experts/experts_op.h"
#include "kernels/latent/heads_op.h"
#include "kernels/layer_norm/layer_norm_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/lm_head/head_op.h"
#include "kernels/rms_norm/norm_op.h"
#include "kernels/rope/rope_op.h"
#include "kernels/rows/rows_op.h"
#include "kernels/swiglu/glu_op.h"

namespace forge {
namespace {

// Returns "q_proj" for "self_attn.q_proj".
std::string last_part(const std::string& path) { return path.substr(path.rfind('.') + 1); }

}  // namespace

Recorder::Recorder(ModuleTraining training, ValueType stream) : training_(std::move(training)), stream_(stream) {}

void Recorder::enter_layer(int64_t layer, const std::string& prefix) {
  layer_ = layer;
  prefix_ = prefix;
}
void Recorder::leave_layer() { enter_layer(-1, ""); }

int32_t Recorder::module_at(const std::string& name, ModuleKind kind, int64_t in, int64_t out, bool bias) {
  const std::string path = prefix_ + name;
  auto [found, is_new] = index_.try_emplace(path, static_cast<int32_t>(graph_.modules.size()));
  if (!is_new) return found->second;
  ModuleUse use{.path = path, .kind = kind, .layer = layer_, .in = in, .out = out, .bias = bias};
  use.trained = training_.all || training_.whole.count(path) > 0;
  if (auto adapter = training_.adapters.find(path); adapter != training_.adapters.end()) {
    use.rank = adapter->second.rank, use.adapter = adapter->second.name, use.dropout = training_.dropout, use.dora = training_.dora;
    use.bias_trained = training_.biases != TrainedBiases::none && bias;
  }
  if (training_.biases == TrainedBiases::all) use.bias_trained = bias;
  graph_.modules.push_back(std::move(use));
  return found->second;
}

std::string Recorder::name(const std::string& part) const {
  return layer_ < 0 ? part : "layers." + std::to_string(layer_) + "." + part;
}

ValueId Recorder::like(const std::string& part, ValueId other, int64_t width, ValueType type) {
  return graph_.new_value(name(part), graph_.buffer_of(other).rows, width, type);
}

Op& Recorder::push(OpKind kind, std::vector<ValueId> in, std::vector<ValueId> out,
                   std::vector<int32_t> modules) {
  for (ValueId value : out)
    graph_.producers[static_cast<size_t>(value)] = static_cast<int32_t>(graph_.ops.size());
  graph_.ops.push_back({kind, layer_, std::move(in), std::move(out), std::move(modules), {}});
  graph_.forward_ops = graph_.ops.size();
  return graph_.ops.back();
}

ValueId Recorder::embed(const std::string& module, int64_t vocabulary, int64_t hidden, double scale,
                        int64_t frozen_row, Rows rows) {
  ValueId h = graph_.new_value(name(rows == Rows::source ? "source embedded" : "embedded"), rows, hidden, stream_);
  const int32_t at = module_at(module, ModuleKind::embedding, hidden, vocabulary);
  Attributes& a = push(&ops::embed, {}, {h}, {at}).attributes;
  a.scale = scale;
  a.frozen_row = frozen_row;
  return h;
}

ValueId Recorder::embed_positions(const std::string& module, int64_t positions, int64_t hidden, int64_t offset, Rows rows) {
  ValueId h = embed(module, positions, hidden, 1, -1, rows);
  graph_.ops.back().attributes.by_position = true;
  graph_.ops.back().attributes.position_offset = offset;
  return h;
}

Recorder::PositionBias Recorder::position_bias(const std::string& module, int64_t buckets, int64_t heads, int64_t distance) {
  return {module_at(module, ModuleKind::embedding, heads, buckets), distance};
}

ValueId Recorder::norm(ValueId x, const std::string& module, double eps, double weight_offset) {
  return head_norm(x, module, graph_.value(x).width, eps, weight_offset);
}

ValueId Recorder::head_norm(ValueId x, const std::string& module, int64_t head_dim, double eps,
                            double weight_offset) {
  const std::string part = last_part(module);
  const int64_t width = graph_.value(x).width;
  ValueId y = like(part, x, width);
  ValueId inverse = like(part + ".inverse", x, width / head_dim, ValueType::fp32);
  const int32_t at = module_at(module, ModuleKind::norm, head_dim, head_dim);
  Attributes& a = push(&ops::norm, {x}, {y, inverse}, {at}).attributes;
  a.eps = eps;
  a.weight_offset = weight_offset;
  a.head_dim = head_dim;
  return y;
}

ValueId Recorder::layer_norm(ValueId x, const std::string& module, double eps, bool bias) {
  return layer_norm_as(ValueType::compute, x, module, eps, bias);
}

ValueId Recorder::stream_norm(ValueId x, const std::string& module, double eps, bool bias) {
  return layer_norm_as(stream_, x, module, eps, bias);
}

ValueId Recorder::layer_norm_as(ValueType type, ValueId x, const std::string& module, double eps, bool bias) {
  const std::string part = last_part(module);
  const int64_t width = graph_.value(x).width;
  ValueId y = like(part, x, width, type);
  ValueId statistics = like(part + ".statistics", x, 2, ValueType::fp32);
  const int32_t at = module_at(module, ModuleKind::norm, width, width, bias);
  push(&ops::layer_norm, {x}, {y, statistics}, {at}).attributes.eps = eps;
  return y;
}

ValueId Recorder::add(ValueId a, ValueId b) {
  const Value in_place = graph_.value(b);
  const ValueType type = graph_.buffer_of(a).type;
  FORGE_CHECK(type == graph_.buffer_of(b).type || type == ValueType::fp32, in_place.name << " is the stream, and comes first in a sum");
  ValueId sum = type == graph_.buffer_of(b).type
                    ? graph_.add_value(name("stream"), in_place.buffer, in_place.column, in_place.width)
                    : like("stream", a, in_place.width, type);
  push(&ops::add, {a, b}, {sum});
  return sum;
}

// Returns x in the type that products read.
ValueId Recorder::in_compute_type(ValueId x) {
  if (graph_.buffer_of(x).type == ValueType::compute) return x;
  ValueId y = like("cast", x, graph_.value(x).width);
  push(&ops::cast, {x}, {y});
  return y;
}

ValueId Recorder::scale(ValueId x, double factor) {
  const Value in_place = graph_.value(x);
  ValueId y = graph_.add_value(in_place.name + ".scaled", in_place.buffer, in_place.column, in_place.width);
  push(&ops::scale, {x}, {y}).attributes.scale = factor;
  return y;
}

std::vector<ValueId> Recorder::split_all(ValueId x, const std::vector<int64_t>& widths) {
  std::vector<ValueId> parts;
  int64_t column = graph_.value(x).column;
  for (int64_t width : widths) {
    parts.push_back(graph_.add_value(graph_.value(x).name + "[" + std::to_string(parts.size()) + "]",
                                     graph_.value(x).buffer, column, width));
    graph_.producers[static_cast<size_t>(parts.back())] = graph_.producers[static_cast<size_t>(x)];
    column += width;
  }
  graph_.ops[static_cast<size_t>(graph_.producers[static_cast<size_t>(x)])].parts = parts;
  return parts;
}

std::vector<ValueId> Recorder::linear_all(ValueId x, const std::vector<LinearShape>& shapes) {
  x = in_compute_type(x);
  std::vector<int32_t> modules;
  for (const LinearShape& shape : shapes) {
    modules.push_back(
        module_at(shape.module, ModuleKind::linear, graph_.value(x).width, shape.out, shape.bias));
    ModuleUse& use = use_at(modules.back());
    use.use = shape.use;
    use.fp8 = training_.fp8 && !use.trained && shape.use == LinearUse::layer && !training_.wide.count(use.path);
  }
  std::string all;
  int64_t width = 0;
  for (int32_t at : modules) {
    const ModuleUse& module = graph_.modules[static_cast<size_t>(at)];
    all += (all.empty() ? "" : "+") + last_part(module.path);
    width += module.out;
  }
  bool adapted = false;
  for (int32_t at : modules) adapted |= graph_.modules[static_cast<size_t>(at)].rank > 0;
  const bool dora = training_.dora && adapted;
  ValueId y = like(dora ? all + ".unscaled" : all, x, width);
  std::vector<ValueId> out{y};
  for (int32_t at : modules) {
    const ModuleUse& module = graph_.modules[static_cast<size_t>(at)];
    const std::string part = last_part(module.path);
    const int64_t rank = module.rank;
    if (rank > 0) out.push_back(like(part + ".s", x, rank, ValueType::fp32));
  }
  push(&ops::linear, {x}, out, modules).attributes.unscaled = dora;
  std::vector<ValueId> parts = columns(y, modules, dora ? ".unscaled" : "");
  return dora ? columns(rescaled(y, all, modules), modules) : parts;
}

// Returns what the last op made for each module, side by side in `whole`.
std::vector<ValueId> Recorder::columns(ValueId whole, const std::vector<int32_t>& modules,
                                       const std::string& suffix) {
  const auto op = static_cast<int32_t>(graph_.ops.size() - 1);
  std::vector<ValueId> parts;
  int64_t column = 0;
  for (int32_t at : modules) {
    const ModuleUse module = graph_.modules[static_cast<size_t>(at)];
    parts.push_back(modules.size() == 1 ? whole
                                        : graph_.add_value(name(last_part(module.path) + suffix),
                                                           graph_.value(whole).buffer, column, module.out));
    graph_.producers[static_cast<size_t>(parts.back())] = op;
    column += module.out;
  }
  graph_.ops.back().parts = parts;
  if (modules.size() > 1) graph_.values[static_cast<size_t>(whole)].of = parts;
  return parts;
}

ValueId Recorder::rescaled(ValueId x, const std::string& all, const std::vector<int32_t>& modules) {
  const int64_t width = graph_.value(x).width;
  ValueId ratio = graph_.new_value(name(all + ".ratio"), Rows::one, 2 * width, ValueType::fp32);
  push(&ops::dora_ratio, {}, {ratio}, modules);
  ValueId y = like(all, x, width);
  push(&ops::dora, {x, ratio}, {y}, modules);
  return y;
}

std::array<ValueId, 2> Recorder::rope(ValueId q, ValueId k, const Heads& heads,
                                      const RopeOptions& options) {
  const Value from_q = graph_.value(q), from_k = graph_.value(k);
  ValueId q_turned = graph_.add_value(name("q_turned"), from_q.buffer, from_q.column, from_q.width);
  ValueId k_turned = graph_.add_value(name("k_turned"), from_k.buffer, from_k.column, from_k.width);
  Attributes& a = push(&ops::rope, {q, k}, {q_turned, k_turned}).attributes;
  a.heads = heads.heads, a.kv_heads = heads.kv_heads, a.head_dim = heads.head_dim;
  a.interleaved = options.interleaved, a.window_angles = options.window_angles;
  return {q_turned, k_turned};
}

ValueId Recorder::attention(ValueId q, ValueId k, ValueId v, const Heads& heads,
                            const AttentionOptions& options) {
  ValueId mixed = like("mixed", q, heads.heads * heads.head_dim);
  ValueId lse = like("lse", q, heads.heads, ValueType::fp32);
  std::vector<int32_t> modules;
  if (*options.sinks) modules.push_back(module_at(options.sinks, ModuleKind::vector, 0, heads.heads));
  if (options.bias.module >= 0) modules.push_back(options.bias.module);
  Attributes& a = push(&ops::attention, {q, k, v}, {mixed, lse}, modules).attributes;
  a.heads = heads.heads, a.kv_heads = heads.kv_heads, a.head_dim = heads.head_dim;
  a.scale = options.scale, a.softcap = options.softcap, a.window = options.window;
  a.sight = options.sight, a.position_distance = options.bias.distance;
  return mixed;
}

std::array<ValueId, 3> Recorder::regroup(ValueId x, const Heads& heads) {
  const int64_t q = heads.heads * heads.head_dim, kv = heads.kv_heads * heads.head_dim;
  ValueId y = like("qkv", x, q + 2 * kv);
  Attributes& a = push(&ops::regroup, {x}, {y}).attributes;
  a.heads = heads.heads, a.kv_heads = heads.kv_heads, a.head_dim = heads.head_dim;
  return split(y, {q, kv, kv});
}

std::array<ValueId, 3> Recorder::latent_heads(ValueId q, ValueId kv, ValueId key, const LatentHeads& heads) {
  const int64_t width = heads.heads * heads.head_dim;
  ValueId y = like("qkv", q, 3 * width);
  Attributes& a = push(&ops::latent_heads, {q, kv, key}, {y}).attributes;
  a.heads = a.kv_heads = heads.heads, a.head_dim = heads.head_dim;
  a.rope_dim = heads.rope_dim, a.value_dim = heads.value_dim;
  return split(y, {width, width, width});
}

ValueId Recorder::trim_heads(ValueId x, const LatentHeads& heads) {
  ValueId y = like("trimmed", x, heads.heads * heads.value_dim);
  Attributes& a = push(&ops::trim_heads, {x}, {y}).attributes;
  a.heads = a.kv_heads = heads.heads, a.head_dim = heads.head_dim, a.value_dim = heads.value_dim;
  return y;
}

ValueId Recorder::clamped_glu(ValueId pairs, double limit, double alpha) {
  ValueId y = like("glu", pairs, graph_.value(pairs).width / 2);
  Attributes& a = push(&ops::glu, {pairs}, {y}).attributes;
  a.gate = GateKind::clamped, a.gate_limit = limit, a.gate_alpha = alpha;
  return y;
}

ValueId Recorder::glu(ValueId gate, ValueId up, GateKind kind) {
  ValueId y = like("glu", gate, graph_.value(gate).width);
  push(&ops::glu, {gate, up}, {y}).attributes.gate = kind;
  return y;
}

ValueId Recorder::activation(ValueId x, ActivationKind kind) {
  ValueId y = like("activated", x, graph_.value(x).width);
  push(&ops::activation, {x}, {y}).attributes.activation = kind;
  return y;
}

ValueId Recorder::gate_rows(ValueId x, ValueId gate) {
  ValueId y = like("gated", x, graph_.value(x).width);
  push(&ops::gate_rows, {x, gate}, {y});
  return y;
}

Recorder::Routing Recorder::route(ValueId logits, const RouteRule& rule, const char* correction) {
  const int64_t experts = graph_.value(logits).width;
  ValueId weights = like("expert weights", logits, rule.per_token, ValueType::fp32);
  ValueId order = like("expert order", logits, rule.per_token, ValueType::fp32);
  ValueId ends = graph_.new_value(name("expert ends"), Rows::one, experts, ValueType::fp32);
  std::vector<ValueId> out{weights, order, ends};
  if (rule.balance) out.push_back(graph_.new_value(name("expert probability"), Rows::one, experts, ValueType::fp32));
  std::vector<int32_t> modules;
  if (*correction) {
    modules.push_back(module_at(correction, ModuleKind::vector, 0, experts));
    use_at(modules.back()).constant = true, use_at(modules.back()).trained = false;
  }
  push(&ops::route, {logits}, out, modules).attributes.route = rule;
  return {weights, order, ends, experts, rule};
}

ValueId Recorder::dispatch(ValueId x, const Routing& routing) {
  ValueId rows = like("expert rows", x, routing.rule.per_token * graph_.value(x).width);
  push(&ops::dispatch, {x, routing.order}, {rows}).attributes.route = routing.rule;
  return rows;
}

ValueId Recorder::expert_linear(ValueId rows, const Routing& routing, const std::string& before, const std::string& after,
                                int64_t out) {
  const int64_t per_token = routing.rule.per_token, in = graph_.value(rows).width / per_token;
  std::vector<int32_t> modules;
  for (int64_t expert = 0; expert < routing.experts; ++expert)
    modules.push_back(module_at(before + std::to_string(expert) + after, ModuleKind::linear, in, out));
  std::vector<ValueId> made{like("experts" + after, rows, per_token * out)};
  int64_t rank = 0;
  for (int32_t module : modules) rank = std::max(rank, use_at(module).rank);
  if (rank > 0) made.push_back(like("experts" + after + ".s", rows, per_token * rank, ValueType::fp32));
  const ValueId y = made[0];
  push(&ops::expert_linear, {rows, routing.ends, routing.order}, std::move(made), modules).attributes.route = routing.rule;
  return y;
}

ValueId Recorder::joined_expert_linear(ValueId rows, const Routing& routing, const char* module, int64_t out, bool bias) {
  const int64_t per_token = routing.rule.per_token, in = graph_.value(rows).width / per_token;
  const int32_t at = module_at(module, ModuleKind::experts, in, out, bias);
  use_at(at).experts = routing.experts;
  const ValueId y = like(last_part(module), rows, per_token * out);
  std::vector<ValueId> made{y};
  if (const int64_t rank = use_at(at).rank; rank > 0)
    made.push_back(like(last_part(module) + ".s", rows, per_token * rank, ValueType::fp32));
  push(&ops::expert_linear, {rows, routing.ends, routing.order}, std::move(made), {at}).attributes.route =
      routing.rule;
  return y;
}

ValueId Recorder::combine(ValueId rows, const Routing& routing) {
  ValueId y = like("experts", rows, graph_.value(rows).width / routing.rule.per_token);
  push(&ops::combine, {rows, routing.order, routing.weights}, {y}).attributes.route = routing.rule;
  return y;
}

ValueId Recorder::gather(ValueId h) {
  ValueId rows = graph_.new_value(name("supervised"), Rows::targets, graph_.value(h).width, graph_.buffer_of(h).type);
  push(&ops::gather, {h}, {rows});
  return rows;
}

void Recorder::head(ValueId rows, const std::string& module, int64_t vocabulary, double softcap,
                    bool fused, bool training) {
  std::vector<ValueId> out;
  const int64_t width = graph_.value(rows).width;
  if (training) out.push_back(like("d head", rows, width));
  const int32_t at = module_at(module, ModuleKind::head, width, vocabulary);
  Attributes& attributes = push(training ? &ops::head : &ops::evaluate, {rows}, out, {at}).attributes;
  attributes.softcap = softcap;
  attributes.fused_head = fused;
}

}  // namespace forge
