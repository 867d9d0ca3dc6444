// Gemma (Gemma Team, 2024): Llama's layer with gelu in the gate, embeddings of the size of the
// stream, heads as wide as they like, and norms that multiply by 1 + weight.
//
// Gemma 2 (2024): norms on both sides of attention and of the MLP, every second layer with a
// window, caps on the scores and on the logits. Gemma 3, the text model (2025): Gemma 2's layer
// with norms on the heads of q and k in place of caps. Every sixth layer has full attention and
// another RoPE base than those with a window.
#include <cmath>

#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "kernels/rows/rows_op.h"

namespace forge::gemma {
namespace {

constexpr const char* kActivation = "gelu_pytorch_tanh";
constexpr int64_t kWindow = 4096, kPeriod2 = 2, kPeriod3 = 6;
constexpr double kMostCap = 1e6;

// Bounds of attention's scores and of the logits; 0: none.
struct Caps {
  double scores = 0, logits = 0;
};
constexpr Caps kCaps2{50, 30};

// Returns the cap: 0, no cap, for null.
double cap_setting(Settings& settings, const char* key, double absent) {
  if (!settings.find(key)) return settings.has(key) ? 0 : absent;
  return settings.number(key, 1e-3, kMostCap);
}

// Sets the constants of the norms and of the embedding.
void set_constants(ModelSpec& spec) {
  spec.norm_offset = 1;
  spec.embedding_scale = std::sqrt(static_cast<double>(spec.hidden_size));
}

void read(Settings& settings, ModelSpec& spec) {
  set_constants(spec);
  if (!settings.has("head_dim")) spec.head_dim = 256;
  settings.must_be("use_bidirectional_attention", false, "causal attention");
}

// Reads the scale and the caps of scores in Gemma 2 and 3. `absent` holds the caps if the file
// states none.
void read_scores(Settings& settings, ModelSpec& spec, Caps absent) {
  spec.attention_scale = 1 / std::sqrt(settings.number("query_pre_attn_scalar", 1e-3, 1e9, 256));
  spec.attention_softcap = cap_setting(settings, "attn_logit_softcapping", absent.scores);
  spec.logit_softcap = cap_setting(settings, "final_logit_softcapping", absent.logits);
}

void read_gemma2(Settings& settings, ModelSpec& spec) {
  read(settings, spec);
  read_scores(settings, spec, kCaps2);
  read_periodic_windows(settings, spec, kWindow, kPeriod2);
}

void read_gemma3(Settings& settings, ModelSpec& spec) {
  read(settings, spec);
  settings.must_be("attn_logit_softcapping", nullptr, "no cap on the scores");
  read_scores(settings, spec, {});
  spec.qk_norm = true;
  read_periodic_windows(settings, spec, kWindow, settings.integer("sliding_window_pattern", 1, kMostLayers, kPeriod3));
}

void read_gguf(Settings&, ModelSpec& spec) { set_constants(spec); }

// llama.cpp keeps no query_pre_attn_scalar. It is the head's width except in the 27B model, which
// is recognised by its number of layers.
void read_gguf_scores(Settings& settings, ModelSpec& spec, int64_t layers_of_27b, Caps absent) {
  set_constants(spec);
  if (spec.num_layers == layers_of_27b)
    spec.attention_scale = 1 / std::sqrt(static_cast<double>(spec.hidden_size / spec.num_heads));
  spec.attention_softcap = settings.number(".attn_logit_softcapping", 0, kMostCap, absent.scores);
  spec.logit_softcap = settings.number(".final_logit_softcapping", 0, kMostCap, absent.logits);
}

void read_gemma2_gguf(Settings& settings, ModelSpec& spec) {
  read_gguf_scores(settings, spec, 46, kCaps2);
  set_periodic_windows(settings, spec, kWindow, kPeriod2);
}

void read_gemma3_gguf(Settings& settings, ModelSpec& spec) {
  read_gguf_scores(settings, spec, 62, {});
  spec.window_rope_theta = settings.number(".rope.freq_base_swa", 1, 1e12, 10000);
  set_periodic_windows(settings, spec, kWindow, kPeriod3);
}

void write_scores(const ModelSpec& spec, Json& config) {
  const auto cap = [](double softcap) { return softcap > 0 ? Json(softcap) : Json(nullptr); };
  const double scale = attention_of(spec, 0).scale;
  config["query_pre_attn_scalar"] = std::round(1 / (scale * scale) * 1e6) / 1e6;
  config["attn_logit_softcapping"] = cap(spec.attention_softcap);
  config["final_logit_softcapping"] = cap(spec.logit_softcap);
  write_windows(spec, config);
}

void write_gemma3(const ModelSpec& spec, Json& config) {
  write_scores(spec, config);
  if (spec.window_rope_theta == 0) return;
  config.erase("rope_theta");
  config["rope_parameters"] = {{"full_attention", config["rope_parameters"]},
                               {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", spec.window_rope_theta}}}};
}

ValueId mlp(Recorder& g, const ModelSpec& m, ValueId x) {
  return gated_mlp(g, m, x, {"mlp", m.intermediate_size, m.mlp_bias, GateKind::gelu_tanh});
}

// Records a layer with norms before and after attention and the MLP.
ValueId gemma2_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  ValueId x = self_attention(g, m, layer, norm(g, m, h, "input_layernorm"));
  h = add(g, h, norm(g, m, x, "post_attention_layernorm"));
  x = mlp(g, m, norm(g, m, h, "pre_feedforward_layernorm"));
  return add(g, h, norm(g, m, x, "post_feedforward_layernorm"));
}

}  // namespace

Family gemma_family() {
  return {.name = "gemma",
          .architecture = "GemmaForCausalLM",
          .gguf_architecture = "gemma",
          .max_position_embeddings = 8192,
          .num_kv_heads = 16,
          .activation = kActivation,
          .same_activations = {"gelu"},  // the first files say gelu and mean gelu_pytorch_tanh
          .tied = true,
          .flags = {kAttentionBias},
          .read = read,
          .read_gguf = read_gguf,
          .mlp = mlp};
}

Family gemma2_family() {
  return {.name = "gemma2",
          .architecture = "Gemma2ForCausalLM",
          .gguf_architecture = "gemma2",
          .max_position_embeddings = 8192,
          .num_kv_heads = 4,
          .activation = kActivation,
          .tied = true,
          .spelling = {{"hidden_act", "hidden_activation"}},  // hidden_act is not read
          .flags = {kAttentionBias},
          .read = read_gemma2,
          .write = write_scores,
          .read_gguf = read_gemma2_gguf,
          .layer = gemma2_layer};
}

Family gemma3_family() {
  Family family = gemma2_family();
  family.name = "gemma3_text";
  family.architecture = "Gemma3ForCausalLM";
  family.gguf_architecture = "gemma3";
  family.max_position_embeddings = 131072;
  family.rope_theta = 1e6;
  family.window_rope_theta = 1e4;
  family.read = read_gemma3;
  family.write = write_gemma3;
  family.read_gguf = read_gemma3_gguf;
  return family;
}

}  // namespace forge::gemma
