// Settings and parts of layers that several families share.
#include <algorithm>
#include <cmath>

#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "kernels/attention/attention_op.h"
#include "kernels/layer_norm/layer_norm_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rms_norm/norm_op.h"
#include "kernels/rope/rope_op.h"
#include "kernels/swiglu/glu_op.h"

namespace forge {

Heads heads_of(const ModelSpec& m) { return {m.num_heads, m.num_kv_heads, m.head_dim}; }

AttentionOptions attention_of(const ModelSpec& m, int64_t layer) {
  const double scale =
      m.attention_scale > 0 ? m.attention_scale : 1 / std::sqrt(static_cast<double>(m.head_dim));
  return {.scale = scale, .softcap = m.attention_softcap, .window = m.window(layer), .sinks = m.attention_sinks ? "self_attn.sinks" : ""};
}

ValueId norm(Recorder& g, const ModelSpec& m, ValueId x, const char* module) {
  if (m.layer_norm) return layer_norm(g, x, module, m.rms_norm_eps, m.norm_bias);
  return norm(g, x, module, m.rms_norm_eps, m.norm_offset);
}

ValueId attend(Recorder& g, const ModelSpec& m, int64_t layer, ValueId q, ValueId k, ValueId v) {
  const bool window_angles = m.window_rope_theta > 0 && m.window(layer) > 0;
  if (m.turns(layer)) {
    auto [q_turned, k_turned] = rope(g, q, k, heads_of(m), {m.rope.interleaved, window_angles});
    q = q_turned, k = k_turned;
  }
  return attention(g, q, k, v, heads_of(m), attention_of(m, layer));
}

ValueId self_attention(Recorder& g, const ModelSpec& m, int64_t layer, ValueId x) {
  const int64_t q_size = m.num_heads * m.head_dim, kv_size = m.num_kv_heads * m.head_dim;
  auto [q, k, v] = linear(g, x, {{"self_attn.q_proj", q_size, m.qkv_bias},
                                {"self_attn.k_proj", kv_size, m.qkv_bias},
                                {"self_attn.v_proj", kv_size, m.qkv_bias}});
  if (m.qk_norm) {
    q = head_norm(g, q, "self_attn.q_norm", m.head_dim, m.rms_norm_eps, m.norm_offset);
    k = head_norm(g, k, "self_attn.k_norm", m.head_dim, m.rms_norm_eps, m.norm_offset);
  }
  return linear(g, attend(g, m, layer, q, k, v), {"self_attn.o_proj", m.hidden_size, m.o_bias});
}

ValueId gated_mlp(Recorder& g, const ModelSpec& m, ValueId x, GateKind gate_kind) {
  auto [gate, up] = linear(g, x, {{"mlp.gate_proj", m.intermediate_size, m.mlp_bias},
                                 {"mlp.up_proj", m.intermediate_size, m.mlp_bias}});
  return linear(g, glu(g, gate, up, gate_kind), {"mlp.down_proj", m.hidden_size, m.mlp_bias});
}

ValueId merged_gated_mlp(Recorder& g, const ModelSpec& m, ValueId x) {
  auto [gate, up] = g.split(linear(g, x, {"mlp.gate_up_proj", 2 * m.intermediate_size}),
                            {m.intermediate_size, m.intermediate_size});
  return linear(g, glu(g, gate, up, GateKind::silu), {"mlp.down_proj", m.hidden_size});
}

int64_t window_setting(Settings& settings, int64_t absent) {
  if (!settings.find("sliding_window")) return settings.has("sliding_window") ? 0 : absent;
  return settings.integer("sliding_window", 0, int64_t{1} << 40);
}

Json window_json(const ModelSpec& spec) {
  return spec.sliding_window > 0 ? Json(spec.sliding_window) : Json(nullptr);
}

Json layer_types_json(const ModelSpec& spec) {
  Json types = Json::array();
  for (int64_t layer = 0; layer < spec.num_layers; ++layer)
    types.push_back(spec.window(layer) > 0 ? "sliding_attention" : "full_attention");
  return types;
}

void refuse_window(GgufSettings& settings, ModelSpec&) {
  settings.must_be("attention.sliding_window", 0, "full attention");
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

void read_periodic_windows(Settings& settings, ModelSpec& spec, int64_t absent_window, int64_t period) {
  spec.sliding_window = window_setting(settings, absent_window);
  read_layer_types(settings, spec, [period](int64_t layer) { return (layer + 1) % period == 0; });
}

void set_periodic_windows(GgufSettings& settings, ModelSpec& spec, int64_t absent_window, int64_t period) {
  if (!settings.has("attention.sliding_window")) spec.sliding_window = absent_window;
  // The value is a period, one flag for all layers, or a flag for each layer: true if it has the
  // window.
  const std::string key = "attention.sliding_window_pattern";
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

}  // namespace forge
