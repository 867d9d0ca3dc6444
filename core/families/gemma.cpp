// Gemma (Gemma Team, 2024): Llama's layer with gelu in the gate, embeddings of the size of the stream, heads as wide as they like,
// and norms that multiply by 1 + weight. Gemma 2 and 3 read most of their settings alike.
#include "core/families/gemma.h"

#include <cmath>

namespace forge {
namespace {

constexpr double kMostCap = 1e6;

// null: no cap.
double cap_setting(Settings& settings, const char* key, double absent) {
  if (!settings.find(key)) return settings.has(key) ? 0 : absent;
  return settings.number(key, 1e-3, kMostCap);
}

void read(Settings& settings, ModelSpec& spec) { read_gemma(settings, spec); }
void read_gguf(GgufSettings&, ModelSpec& spec) { set_gemma_constants(spec); }

void write(const ModelSpec& spec, Json& config) {
  config["hidden_activation"] = kGemmaActivation;
  config["attention_bias"] = spec.qkv_bias;
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  h = g.add(h, self_attention(g, m, layer, norm(g, m, h, "input_layernorm")));
  return g.add(h, gated_mlp(g, m, norm(g, m, h, "post_attention_layernorm"), GateKind::gelu_tanh));
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
  settings.must_be("hidden_activation", kGemmaActivation, "gelu by tanh");
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

void write_gemma_scores(const ModelSpec& spec, Json& config) {
  const auto cap = [](double softcap) { return softcap > 0 ? Json(softcap) : Json(nullptr); };
  const double scale = attention_of(spec, 0).scale;
  write(spec, config);
  config["query_pre_attn_scalar"] = std::round(1 / (scale * scale) * 1e6) / 1e6;
  config["attn_logit_softcapping"] = cap(spec.attention_softcap);
  config["final_logit_softcapping"] = cap(spec.logit_softcap);
  config["sliding_window"] = window_json(spec);
  config["layer_types"] = layer_types_json(spec);
}

Family gemma_family() {
  return {.name = "gemma",
          .architecture = "GemmaForCausalLM",
          .gguf_architecture = "gemma",
          .max_position_embeddings = 8192,
          .num_kv_heads = 16,
          .activation = kGemmaActivation,
          .same_activations = {"gelu"},  // as the first files say and do not mean
          .tied = true,
          .read = read,
          .write = write,
          .read_gguf = read_gguf,
          .layer = layer};
}

}  // namespace forge
