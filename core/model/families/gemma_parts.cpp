#include "core/model/families/gemma_parts.h"

#include <cmath>

#include "kernels/rows/rows_op.h"

namespace forge {
namespace {

constexpr double kMostCap = 1e6;

// Returns the cap: 0, no cap, for null.
double cap_setting(Settings& settings, const char* key, double absent) {
  if (!settings.find(key)) return settings.has(key) ? 0 : absent;
  return settings.number(key, 1e-3, kMostCap);
}

}  // namespace

void set_gemma_constants(ModelSpec& spec) {
  spec.norm_offset = 1;
  spec.embedding_scale = std::sqrt(static_cast<double>(spec.hidden_size));
}

void read_gemma(Settings& settings, ModelSpec& spec) {
  set_gemma_constants(spec);
  if (!settings.has("head_dim")) spec.head_dim = 256;
  spec.qkv_bias = spec.o_bias = settings.flag("attention_bias", false);
  settings.must_be("use_bidirectional_attention", false, "causal attention");
}

void read_gemma_scores(Settings& settings, ModelSpec& spec, GemmaCaps absent) {
  spec.attention_scale = 1 / std::sqrt(settings.number("query_pre_attn_scalar", 1e-3, 1e9, 256));
  spec.attention_softcap = cap_setting(settings, "attn_logit_softcapping", absent.scores);
  spec.logit_softcap = cap_setting(settings, "final_logit_softcapping", absent.logits);
}

void read_gemma_caps(GgufSettings& settings, ModelSpec& spec, GemmaCaps absent) {
  spec.attention_softcap = settings.number("attn_logit_softcapping", 0, kMostCap, absent.scores);
  spec.logit_softcap = settings.number("final_logit_softcapping", 0, kMostCap, absent.logits);
}

void write_gemma(const ModelSpec& spec, Json& config) {
  config["attention_bias"] = spec.qkv_bias;
}

void write_gemma_scores(const ModelSpec& spec, Json& config) {
  const auto cap = [](double softcap) { return softcap > 0 ? Json(softcap) : Json(nullptr); };
  const double scale = attention_of(spec, 0).scale;
  write_gemma(spec, config);
  config["query_pre_attn_scalar"] = std::round(1 / (scale * scale) * 1e6) / 1e6;
  config["attn_logit_softcapping"] = cap(spec.attention_softcap);
  config["final_logit_softcapping"] = cap(spec.logit_softcap);
  config["sliding_window"] = window_json(spec);
  config["layer_types"] = layer_types_json(spec);
}

ValueId gemma2_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  ValueId x = self_attention(g, m, layer, norm(g, m, h, "input_layernorm"));
  h = add(g, h, norm(g, m, x, "post_attention_layernorm"));
  x = gated_mlp(g, m, norm(g, m, h, "pre_feedforward_layernorm"), GateKind::gelu_tanh);
  return add(g, h, norm(g, m, x, "post_feedforward_layernorm"));
}

}  // namespace forge
