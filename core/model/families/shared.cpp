// Settings and parts of layers that several families share.
#include <cmath>

#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "kernels/activation/activation_op.h"
#include "kernels/attention/attention_op.h"
#include "kernels/experts/expert_linear_op.h"
#include "kernels/experts/experts_op.h"
#include "kernels/layer_norm/layer_norm_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rms_norm/norm_op.h"
#include "kernels/rope/rope_op.h"
#include "kernels/rows/rows_op.h"
#include "kernels/swiglu/glu_op.h"

namespace forge {

ValueId llama_layer(Recorder& g, const ModelSpec& m, const Family& family, int64_t layer, ValueId h) {
  h = add(g, h, self_attention(g, m, layer, norm(g, m, h, "input_layernorm")));
  return add(g, h, family.mlp(g, m, norm(g, m, h, "post_attention_layernorm")));
}

Heads heads_of(const ModelSpec& m) { return {m.num_heads, m.num_kv_heads, m.head_dim}; }
Heads heads_of(const ModelSpec& m, int64_t layer) { return {m.num_heads, m.kv_heads(layer), m.head_width(layer)}; }

AttentionOptions attention_of(const ModelSpec& m, int64_t layer) {
  const double scale =
      m.attention_scale > 0 ? m.attention_scale : 1 / std::sqrt(static_cast<double>(m.head_dim));
  return {.scale = scale,
          .softcap = m.attention_softcap,
          .window = m.window(layer),
          .chunk = m.chunk(layer),
          .sinks = m.attention_sinks ? "self_attn.sinks" : "",
          .alibi = m.alibi};
}

ValueId norm(Recorder& g, const ModelSpec& m, ValueId x, const char* module) {
  if (m.bare_norms) return bare_layer_norm(g, x, module, m.rms_norm_eps);
  if (m.layer_norm) return layer_norm(g, x, module, m.rms_norm_eps, m.norm_bias, m.norm_offset);
  return norm(g, x, module, m.rms_norm_eps, m.norm_offset);
}

std::array<ValueId, 2> turn(Recorder& g, const ModelSpec& m, int64_t layer, ValueId q, ValueId k) {
  if (!m.turns(layer)) return {q, k};
  const bool window_angles = m.window_rope_theta > 0 && m.window(layer) > 0;
  return rope(g, q, k, heads_of(m, layer), {m.rope.interleaved, window_angles, m.query_growth > 0 && !m.grows_apart()});
}

ValueId attend(Recorder& g, const ModelSpec& m, int64_t layer, ValueId q, ValueId k, ValueId v) {
  auto [q_turned, k_turned] = turn(g, m, layer, q, k);
  return attention(g, q_turned, k_turned, v, heads_of(m, layer), attention_of(m, layer));
}

std::array<ValueId, 3> project_qkv(Recorder& g, const ModelSpec& m, ValueId x) {
  const int64_t q_size = m.num_heads * m.head_dim, kv_size = m.num_kv_heads * m.head_dim;
  return linear(g, x, {{"self_attn.q_proj", q_size, m.qkv_bias},
                       {"self_attn.k_proj", kv_size, m.qkv_bias},
                       {"self_attn.v_proj", kv_size, m.qkv_bias}});
}

ValueId self_attention(Recorder& g, const ModelSpec& m, int64_t layer, ValueId x) {
  auto [q, k, v] = project_qkv(g, m, x);
  if (m.qk_norm) {
    q = head_norm(g, q, "self_attn.q_norm", m.head_dim, m.rms_norm_eps, m.norm_offset);
    k = head_norm(g, k, "self_attn.k_norm", m.head_dim, m.rms_norm_eps, m.norm_offset);
  }
  return linear(g, attend(g, m, layer, q, k, v), {"self_attn.o_proj", m.hidden_size, m.o_bias});
}

ValueId wide_norm_attention(Recorder& g, const ModelSpec& m, int64_t layer, ValueId x) {
  auto [q, k, v] = project_qkv(g, m, x);
  q = norm(g, m, q, "self_attn.q_norm");
  k = norm(g, m, k, "self_attn.k_norm");
  return linear(g, attend(g, m, layer, q, k, v), {"self_attn.o_proj", m.hidden_size, m.o_bias});
}

ValueId gated_mlp(Recorder& g, const ModelSpec& m, ValueId x, const GatedMlp& mlp) {
  const std::string gate_name = mlp.module + mlp.gate, up_name = mlp.module + mlp.up,
                    down_name = mlp.module + mlp.down;
  auto [gate, up] = linear(
      g, x, {{gate_name.c_str(), mlp.size, mlp.bias}, {up_name.c_str(), mlp.size, mlp.bias}});
  return linear(g, glu(g, gate, up, mlp.kind), {down_name.c_str(), m.hidden_size, mlp.bias});
}

ValueId gated_mlp(Recorder& g, const ModelSpec& m, ValueId x) {
  return gated_mlp(g, m, x, {"mlp", m.intermediate_size, m.mlp_bias});
}

ValueId merged_gated_mlp(Recorder& g, const ModelSpec& m, ValueId x) {
  auto [gate, up] = g.split(linear(g, x, {"mlp.gate_up_proj", 2 * m.intermediate_size}),
                            {m.intermediate_size, m.intermediate_size});
  return linear(g, glu(g, gate, up, GateKind::silu), {"mlp.down_proj", m.hidden_size});
}

ValueId plain_mlp(Recorder& g, const ModelSpec& m, ValueId x, const std::string& in,
                  const std::string& out, ActivationKind kind) {
  x = activation(g, linear(g, x, {in.c_str(), m.intermediate_size, m.mlp_bias}), kind);
  return linear(g, x, {out.c_str(), m.hidden_size, m.mlp_bias});
}

ValueId attention_over(Recorder& g, const ModelSpec& m, const std::string& module,
                       const ProjectionNames& names, ValueId x, ValueId seen, Sight sight,
                       const PositionBias& bias) {
  const int64_t width = m.num_heads * m.head_dim;
  const std::string q_name = module + names.q, k_name = module + names.k, v_name = module + names.v,
                    out_name = module + names.out;
  AttentionOptions options = attention_of(m, 0);
  options.sight = sight, options.bias = bias;
  ValueId mixed;
  if (x == seen) {
    auto [q, k, v] = linear(g, x,
                            {{q_name.c_str(), width, m.qkv_bias},
                             {k_name.c_str(), width, m.qkv_bias},
                             {v_name.c_str(), width, m.qkv_bias}});
    mixed = attention(g, q, k, v, heads_of(m), options);
  } else {
    ValueId q = linear(g, x, {q_name.c_str(), width, m.qkv_bias});
    auto [k, v] =
        linear(g, seen, {{k_name.c_str(), width, m.qkv_bias}, {v_name.c_str(), width, m.qkv_bias}});
    mixed = attention(g, q, k, v, heads_of(m), options);
  }
  return linear(g, mixed, {out_name.c_str(), m.hidden_size, m.o_bias});
}

int64_t window_setting(Settings& settings, int64_t absent) {
  if (!settings.find("sliding_window")) return settings.has("sliding_window") ? 0 : absent;
  return settings.integer("sliding_window", 0, int64_t{1} << 40);
}

void write_window(const ModelSpec& spec, Json& config) {
  config["sliding_window"] = spec.sliding_window > 0 ? Json(spec.sliding_window) : Json(nullptr);
}

void write_layer_types(const ModelSpec& spec, Json& config) {
  Json types = Json::array();
  for (int64_t layer = 0; layer < spec.num_layers; ++layer)
    types.push_back(spec.window(layer) > 0 ? "sliding_attention" : "full_attention");
  config["layer_types"] = types;
}

void write_windows(const ModelSpec& spec, Json& config) {
  write_window(spec, config);
  write_layer_types(spec, config);
}

void refuse_window(Settings& settings, ModelSpec&) {
  settings.must_be(".attention.sliding_window", 0, "full attention");
}

void read_layer_types(Settings& settings, ModelSpec& spec, const std::function<bool(int64_t layer)>& full) {
  const Json* types = settings.find("layer_types");
  if (types && (!types->is_array() || static_cast<int64_t>(types->size()) != spec.num_layers)) {
    settings.broken("layer_types", "is not a list of num_hidden_layers names");
    return;
  }
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    bool all = spec.sliding_window == 0 || full(layer);
    if (types) {
      const Json& type = (*types)[static_cast<size_t>(layer)];
      all = type == "full_attention";
      if (!all && (type != "sliding_attention" || spec.sliding_window == 0)) {
        settings.unsupported("layer_types",
                             "has " + dump_json(type) + ", forge computes full_attention" +
                                 (spec.sliding_window > 0 ? " and sliding_attention" : " here"));
        return;
      }
    }
    if (all) spec.full_layers.push_back(layer);
  }
  if (static_cast<int64_t>(spec.full_layers.size()) == spec.num_layers) spec.sliding_window = 0;
  if (spec.sliding_window == 0) spec.full_layers.clear(), spec.window_rope_theta = 0;
}

void read_windows(Settings& settings, ModelSpec& spec, int64_t absent_window,
                  const std::function<bool(int64_t layer)>& full) {
  spec.sliding_window = window_setting(settings, absent_window);
  read_layer_types(settings, spec, full);
}

void read_periodic_windows(Settings& settings, ModelSpec& spec, int64_t absent_window, int64_t period) {
  read_windows(settings, spec, absent_window,
               [period](int64_t layer) { return (layer + 1) % period == 0; });
}

void set_periodic_windows(Settings& settings, ModelSpec& spec, int64_t absent_window, int64_t period) {
  if (!settings.has(".attention.sliding_window")) spec.sliding_window = absent_window;
  // The value is a period, one flag for all layers, or a flag for each layer: true if it has the
  // window.
  const std::string key = ".attention.sliding_window_pattern";
  const Json* pattern = settings.find(key);
  if (pattern && pattern->is_boolean()) period = *pattern ? INT64_MAX : 1;
  const bool listed = pattern && pattern->is_array();
  if (pattern && !listed && !pattern->is_boolean()) period = settings.integer(key, 1, kMostLayers);
  if (listed && static_cast<int64_t>(pattern->size()) != spec.num_layers)
    return settings.unsupported(key, "does not have one entry for each of " + std::to_string(spec.num_layers) + " layers");
  for (int64_t layer = 0; spec.sliding_window > 0 && layer < spec.num_layers; ++layer) {
    const bool full = listed ? (*pattern)[static_cast<size_t>(layer)] == false : (layer + 1) % period == 0;
    if (full) spec.full_layers.push_back(layer);
  }
}

// ---- the sparse MLP
//
// A router, experts of gated MLPs, and in some a shared one that every token goes through.
//
// Modules and their adapters are named as files name them: one for each matrix of each expert.
// transformers 5 joins experts in memory, and PEFT reads adapters of single experts and converts
// them (Mixtral, Qwen3-MoE: tried, with equal losses); transformers 4 and the files know no other
// names. PEFT 0.21 reads Qwen2-MoE's only with transformers 4: with 5 it converts nothing and
// refuses the router.

RouteRule route_rule(const ModelSpec& m) {
  return {.per_token = m.experts_per_token,
          .normalise = m.normalise_experts,
          .scale = m.expert_scale,
          .groups = m.expert_groups,
          .groups_per_token = m.groups_per_token,
          .balance = m.router_loss > 0};
}

ValueId sparse_mlp(Recorder& g, const ModelSpec& m, ValueId x, const ExpertNames& names, const RouteRule& rule) {
  const Routing routing =
      route(g, linear(g, x, {names.router, m.num_experts, false, names.router_use}), rule,
            names.correction, names.correction_rows);
  const ValueId rows = dispatch(g, x, routing);
  const ValueId gate = expert_linear(g, rows, routing, names.experts, names.gate, m.expert_size),
                up = expert_linear(g, rows, routing, names.experts, names.up, m.expert_size);
  const ValueId down = expert_linear(g, glu(g, gate, up, GateKind::silu), routing, names.experts, names.down, m.hidden_size);
  return combine(g, down, routing);
}

ValueId joined_sparse_mlp(Recorder& g, const ModelSpec& m, ValueId x, const char* router, const std::string& experts, const RouteRule& rule) {
  const std::string in = experts + "gate_up_proj", out = experts + "down_proj";
  const Routing routing = route(g, linear(g, x, {router, m.num_experts, false, LinearUse::bare_router}), rule);
  const ValueId both = joined_expert_linear(g, dispatch(g, x, routing), routing, {in.c_str(), 2 * m.expert_size});
  const ValueId gated = halves_glu(g, both, m.expert_size, GateKind::silu);
  return combine(g, joined_expert_linear(g, gated, routing, {out.c_str(), m.hidden_size}), routing);
}

void read_per_token(Settings& settings, ModelSpec& spec, std::optional<int64_t> per_token) {
  spec.experts_per_token = settings.integer("num_experts_per_tok", 1, kMostExperts, per_token);
  if (spec.experts_per_token > spec.num_experts)
    settings.broken("num_experts_per_tok", "is more than the number of experts, " + std::to_string(spec.num_experts));
}

void read_router(Settings& settings, ModelSpec& spec, int64_t per_token, double coefficient) {
  read_per_token(settings, spec, per_token);
  coefficient = settings.number("router_aux_loss_coef", 0, 1e6, coefficient);
  spec.router_loss = settings.flag("output_router_logits", false) ? coefficient : 0;
}

void read_corrected_router(Settings& settings, ModelSpec& spec, int64_t per_token) {
  read_per_token(settings, spec, per_token);
  settings.must_be("output_router_logits", false,
                   "no loss that balances experts, which this router's correction does");
  settings.number("router_aux_loss_coef", 0, 1e6, 0);  // of that loss
}

void write_router(const ModelSpec& spec, Json& config) {
  config["num_experts_per_tok"] = spec.experts_per_token;
  config["output_router_logits"] = spec.router_loss > 0;
  if (spec.router_loss > 0) config["router_aux_loss_coef"] = spec.router_loss;
}

}  // namespace forge
