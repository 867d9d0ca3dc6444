// Gemma 2 (Gemma Team, 2024): norms on both sides of attention and of the MLP, every second layer with a window, caps on the
// scores and on the logits, gelu in the gate, and embeddings of the size of the stream. Norms multiply by 1 + weight.
#include <cmath>

#include "core/families/family.h"

namespace forge {
namespace {

constexpr double kMostCap = 1e6;

void set_constants(ModelSpec& spec) {
  spec.norm_offset = 1;
  spec.embedding_scale = std::sqrt(static_cast<double>(spec.hidden_size));
}

bool full(int64_t layer) { return layer % 2 == 1; }

// null: no cap.
double cap_setting(Settings& settings, const char* key, double absent) {
  if (!settings.find(key)) return settings.has(key) ? 0 : absent;
  return settings.number(key, 1e-3, kMostCap);
}

void read(Settings& settings, ModelSpec& spec) {
  set_constants(spec);
  if (!settings.has("head_dim")) spec.head_dim = 256;
  if (!settings.has("tie_word_embeddings")) spec.tie_word_embeddings = true;
  spec.qkv_bias = spec.o_bias = settings.flag("attention_bias", false);
  spec.attention_scale = 1 / std::sqrt(settings.number("query_pre_attn_scalar", 1e-3, 1e9, 256));
  spec.attention_softcap = cap_setting(settings, "attn_logit_softcapping", 50);
  spec.logit_softcap = cap_setting(settings, "final_logit_softcapping", 30);
  settings.must_be("hidden_activation", "gelu_pytorch_tanh", "gelu by tanh");
  settings.must_be("use_bidirectional_attention", false, "causal attention");
  settings.find("sliding_window_size");  // what older files said beside sliding_window
  spec.sliding_window = window_setting(settings, 4096);
  read_layer_types(settings, spec, full);
}

// llama.cpp keeps no query_pre_attn_scalar: it is the head's width but in the 27B model, which it knows by its layers.
void read_gguf(GgufSettings& settings, ModelSpec& spec) {
  constexpr int64_t kLayersOf27B = 46;
  set_constants(spec);
  if (spec.num_layers == kLayersOf27B)
    spec.attention_scale = 1 / std::sqrt(static_cast<double>(spec.hidden_size / spec.num_heads));
  spec.attention_softcap = settings.number("attn_logit_softcapping", 1e-3, kMostCap, 50);
  spec.logit_softcap = settings.number("final_logit_softcapping", 1e-3, kMostCap, 30);
  if (!settings.has("attention.sliding_window")) spec.sliding_window = 4096;
  for (int64_t layer = 0; spec.sliding_window > 0 && layer < spec.num_layers; ++layer)
    if (full(layer)) spec.full_layers.push_back(layer);
}

void write(const ModelSpec& spec, Json& config) {
  const auto cap = [](double softcap) { return softcap > 0 ? Json(softcap) : Json(nullptr); };
  const double scale = attention_of(spec, 0).scale;
  config["hidden_activation"] = "gelu_pytorch_tanh";
  config["attention_bias"] = spec.qkv_bias;
  config["query_pre_attn_scalar"] = std::round(1 / (scale * scale) * 1e6) / 1e6;
  config["attn_logit_softcapping"] = cap(spec.attention_softcap);
  config["final_logit_softcapping"] = cap(spec.logit_softcap);
  config["sliding_window"] = window_json(spec);
  config["layer_types"] = layer_types_json(spec);
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  const int64_t q_size = m.num_heads * m.head_dim, kv_size = m.num_kv_heads * m.head_dim;
  const auto norm = [&](ValueId x, const char* name) {
    return g.norm(x, name, m.rms_norm_eps, m.norm_offset);
  };
  ValueId x = norm(h, "input_layernorm");
  auto [q, k, v] = g.linear(x, {{"self_attn.q_proj", q_size, m.qkv_bias},
                                {"self_attn.k_proj", kv_size, m.qkv_bias},
                                {"self_attn.v_proj", kv_size, m.qkv_bias}});
  auto [q_turned, k_turned] = g.rope(q, k, heads_of(m));
  ValueId mixed = g.attention(q_turned, k_turned, v, heads_of(m), attention_of(m, layer));
  ValueId projected = g.linear(mixed, {"self_attn.o_proj", m.hidden_size, m.o_bias});
  h = g.add(h, norm(projected, "post_attention_layernorm"));

  x = norm(h, "pre_feedforward_layernorm");
  auto [gate, up] =
      g.linear(x, {{"mlp.gate_proj", m.intermediate_size}, {"mlp.up_proj", m.intermediate_size}});
  ValueId down = g.linear(g.glu(gate, up, GateKind::gelu_tanh), {"mlp.down_proj", m.hidden_size});
  return g.add(h, norm(down, "post_feedforward_layernorm"));
}

}  // namespace

Family gemma2_family() {
  return {.name = "gemma2",
          .architecture = "Gemma2ForCausalLM",
          .gguf_architecture = "gemma2",
          .max_position_embeddings = 8192,
          .num_kv_heads = 4,
          .activation = "gelu_pytorch_tanh",
          .read = read,
          .write = write,
          .read_gguf = read_gguf,
          .layer = layer};
}

}  // namespace forge
