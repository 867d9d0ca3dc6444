// OLMo (Groeneveld et al., 2024): Llama's layer between layer norms without weights, with bounds of
// q, k and v in some models.
//
// OLMo 2 (OLMo Team, 2024): norms after attention and MLP instead of before them, and norms over
// all heads of q and of k at once. OLMo 3 (2025) adds layers with windows, whose rotary angles are
// not scaled.
//
// OLMoE (Muennighoff et al., 2024) has experts in place of the MLP, and norms before attention and
// before them; FlexOlmo (Shi et al., 2025) has experts in OLMo 2's layer.
#include <cmath>

#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "kernels/activation/activation_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rows/rows_op.h"

namespace forge::olmo {
namespace {

constexpr int64_t kWindow = 4096, kPeriod = 4;
constexpr double kNormEps = 1e-5;  // of OLMo's class, which reads none

void read_olmo(Settings& settings, ModelSpec& spec, const char* clip) {
  spec.layer_norm = spec.bare_norms = true;
  spec.rms_norm_eps = kNormEps;
  if (settings.find(clip)) spec.qkv_clip = settings.number(clip, 1e-6, 1e9);
}

void read_olmo_config(Settings& settings, ModelSpec& spec) { read_olmo(settings, spec, "clip_qkv"); }

void read_olmo_gguf(Settings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  if (std::abs(spec.rms_norm_eps - kNormEps) > 1e-9)  // a GGUF holds it in fp32
    settings.unsupported(".attention.layer_norm_epsilon", "is not 1e-05, OLMo's own");
  read_olmo(settings, spec, ".attention.clamp_kqv");
}

void write_olmo(const ModelSpec& spec, Json& config) {
  config.erase("rms_norm_eps");
  config["clip_qkv"] = spec.qkv_clip > 0 ? Json(spec.qkv_clip) : Json(nullptr);
}

ValueId olmo_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  const auto bounded = [&](ValueId x) { return m.qkv_clip > 0 ? activation(g, x, ActivationKind::clamp, m.qkv_clip) : x; };
  auto [q, k, v] = project_qkv(g, m, norm(g, m, h, "input_layernorm"));
  q = bounded(q), k = bounded(k), v = bounded(v);
  h = add(g, h, linear(g, attend(g, m, layer, q, k, v), {"self_attn.o_proj", m.hidden_size, m.o_bias}));
  return add(g, h, gated_mlp(g, m, norm(g, m, h, "post_attention_layernorm")));
}

void read_olmo3(Settings& settings, ModelSpec& spec) {
  read_periodic_windows(settings, spec, kWindow, kPeriod);
}

void write_olmo3(const ModelSpec& spec, Json& config) {
  write_windows(spec, config);
  const double windows = spec.window_rope_theta > 0 ? spec.window_rope_theta : spec.rope.theta;
  config["rope_parameters"] = {{"full_attention", config["rope_parameters"]},
                               {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", windows}}}};
}

void read_gguf(Settings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  spec.qk_norm = false;  // not of single heads
}

// llama.cpp scales the angles of full layers alone.
void read_olmo3_gguf(Settings& settings, ModelSpec& spec) {
  spec.qk_norm = false;
  set_periodic_windows(settings, spec, kWindow, kPeriod);
  spec.window_rope_theta = settings.number(".rope.freq_base_swa", 1, 1e12, spec.rope.theta);
}

// ---- with experts

constexpr ExpertNames kNames{"mlp.gate", "mlp.experts.", ".gate_proj", ".up_proj", ".down_proj"};

void read_experts(Settings& settings, ModelSpec& spec, int64_t experts, int64_t per_token) {
  spec.num_experts = settings.integer("num_experts", 1, kMostExperts, experts);
  read_router(settings, spec, per_token, 0.01);
  spec.expert_size = spec.intermediate_size;
  spec.normalise_experts = settings.flag("norm_topk_prob", false);
}

void read_olmoe(Settings& settings, ModelSpec& spec) {
  read_experts(settings, spec, 64, 8);
  if (settings.find("clip_qkv"))
    settings.unsupported(
        "clip_qkv",
        "bounds q, k and v, which forge does not compute; it trains checkpoints where it is null");
  if (spec.num_heads * spec.head_dim != spec.hidden_size)
    settings.unsupported("head_dim",
                         "makes heads of another width than hidden_size, which the norm of q has");
}

void read_flex_olmo(Settings& settings, ModelSpec& spec) { read_experts(settings, spec, 7, 5); }

// llama.cpp does not normalise the weights of OLMoE's experts.
void read_olmoe_gguf(Settings& settings, ModelSpec& spec) {
  read_gguf(settings, spec);
  spec.normalise_experts = false;
}

void write_experts(const ModelSpec& spec, Json& config) {
  config["num_experts"] = spec.num_experts;
  config["norm_topk_prob"] = spec.normalise_experts;
  write_router(spec, config);
}

ValueId experts(Recorder& g, const ModelSpec& m, ValueId x) {
  return sparse_mlp(g, m, in_compute_type(g, x), kNames, route_rule(m));
}

// ---- layers

ValueId layer_with(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h,
                   ValueId (*mlp)(Recorder&, const ModelSpec&, ValueId)) {
  h = add(g, h, norm(g, m, wide_norm_attention(g, m, layer, h), "post_attention_layernorm"));
  return add(g, h, norm(g, m, mlp(g, m, h), "post_feedforward_layernorm"));
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  return layer_with(g, m, layer, h, gated_mlp);
}

ValueId flex_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  return layer_with(g, m, layer, h, experts);
}

ValueId olmoe_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  h = add(g, h, wide_norm_attention(g, m, layer, norm(g, m, h, "input_layernorm")));
  return add(g, h, experts(g, m, norm(g, m, h, "post_attention_layernorm")));
}

}  // namespace

Family olmo_family() {
  return {.name = "olmo",
          .architecture = "OlmoForCausalLM",
          .gguf_architecture = "olmo",
          .max_position_embeddings = 2048,
          .norm_eps = kNormEps,
          .flags = {kAttentionBias},
          .read = read_olmo_config,
          .write = write_olmo,
          .read_gguf = read_olmo_gguf,
          .layer = olmo_layer};
}

Family olmo2_family() {
  return {.name = "olmo2",
          .architecture = "Olmo2ForCausalLM",
          .gguf_architecture = "olmo2",
          .max_position_embeddings = 2048,
          .norm_eps = 1e-5,
          .flags = {kAttentionBias},
          .read_gguf = read_gguf,
          .layer = layer};
}

Family olmo3_family() {
  Family family = olmo2_family();
  family.name = "olmo3";
  family.architecture = "Olmo3ForCausalLM";
  family.gguf_windows = true;
  family.rope_theta = family.window_rope_theta = 500000;
  family.read = read_olmo3;
  family.write = write_olmo3;
  family.read_gguf = read_olmo3_gguf;
  return family;
}

Family olmoe_family() {
  return {.name = "olmoe",
          .architecture = "OlmoeForCausalLM",
          .gguf_architecture = "olmoe",
          .mixture = true,
          .max_position_embeddings = 4096,
          .norm_eps = 1e-5,
          .gguf_experts = {.own_width = false},
          .flags = {kAttentionBias},
          .read = read_olmoe,
          .write = write_experts,
          .read_gguf = read_olmoe_gguf,
          .layer = olmoe_layer};
}

Family flex_olmo_family() {
  return {.name = "flex_olmo",
          .architecture = "FlexOlmoForCausalLM",
          .mixture = true,
          .max_position_embeddings = 4096,
          .rope_theta = 500000,
          .flags = {kAttentionBias},
          .read = read_flex_olmo,
          .write = write_experts,
          .layer = flex_layer};
}

}  // namespace forge::olmo
