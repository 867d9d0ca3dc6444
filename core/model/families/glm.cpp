// GLM-4 (Zeng et al., 2024) and its successor of 2025: gate and up in one matrix, rotary positions
// on neighbouring pairs in the first half of each head. The successor has norms on both sides of
// attention and of the MLP.
//
// GLM-4.5 to 4.7 (2025): Llama's layer with the first half of each head turned, half against half,
// norms on the heads of q and k in the larger models, and DeepSeek-V3's experts. dots.llm1
// (rednote, 2025) is the same layer with whole heads turned.
#include "core/model/families/routed_experts.h"
#include "kernels/rows/rows_op.h"

namespace forge::glm {
namespace {

void read(Settings& settings, ModelSpec& spec) {
  if (!settings.has("head_dim")) spec.head_dim = 128;
  spec.rope.interleaved = true;
}

void read_gguf(Settings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  spec.rope.interleaved = true;
}

void read_glm4_moe(Settings& settings, ModelSpec& spec) {
  read_routed_experts(settings, spec, {.dense = 1, .experts = 128, .shared = 1, .size = 1408});
  read_routed_choice(settings, spec, {.per_token = 8});
}

void read_dots1(Settings& settings, ModelSpec& spec) {
  spec.qk_norm = true;
  read_routed_experts(settings, spec, {});
  read_routed_choice(settings, spec, {.normalise = false});
  const int64_t first = settings.integer("max_window_layers", 0, 1 << 20, 62);
  read_windows(settings, spec, 4096, [first](int64_t layer) { return layer < first; });
}

void write_dots1(const ModelSpec& spec, Json& config) {
  write_routed_experts(spec, config);
  write_window(spec, config);
  if (spec.sliding_window > 0) write_layer_types(spec, config);
}

ValueId glm4_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  ValueId x = self_attention(g, m, layer, norm(g, m, h, "input_layernorm"));
  h = add(g, h, norm(g, m, x, "post_self_attn_layernorm"));
  x = merged_gated_mlp(g, m, norm(g, m, h, "post_attention_layernorm"));
  return add(g, h, norm(g, m, x, "post_mlp_layernorm"));
}

ValueId moe_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  h = add(g, h, self_attention(g, m, layer, norm(g, m, h, "input_layernorm")));
  const ValueId x = norm(g, m, h, "post_attention_layernorm");
  return add(g, h, routed_mlp(g, m, layer, x, kCorrectedNames, sigmoid_rule(m)));
}

}  // namespace

Family glm_family() {
  return {.name = "glm",
          .architecture = "GlmForCausalLM",
          .gguf_architecture = "chatglm",
          .max_position_embeddings = 131072,
          .num_kv_heads = 2,
          .norm_eps = 1.5625e-7,
          .partial_rotary = true,
          .partial_rotary_factor = 0.5,
          .flags = {{"attention_bias", true, {&ModelSpec::qkv_bias}}},
          .read = read,
          .read_gguf = read_gguf,
          .mlp = merged_gated_mlp};
}

Family glm4_family() {
  Family family = glm_family();
  family.name = "glm4";
  family.architecture = "Glm4ForCausalLM";
  family.gguf_architecture = "glm4";
  family.layer = glm4_layer;
  return family;
}

Family glm4_moe_family() {
  return {.name = "glm4_moe",
          .architecture = "Glm4MoeForCausalLM",
          .gguf_architecture = "glm4moe",
          .mixture = true,
          .max_position_embeddings = 131072,
          .num_kv_heads = 8,
          .norm_eps = 1e-5,
          .partial_rotary = true,
          .partial_rotary_factor = 0.5,
          .further_layers = true,
          .gguf_experts = {.gating = 2, .weighted = true, .counted = true, .leading = true},
          .flags = {{"attention_bias", false, {&ModelSpec::qkv_bias}},
                    {"use_qk_norm", false, {&ModelSpec::qk_norm}}},
          .read = read_glm4_moe,
          .write = write_routed_experts,
          .read_gguf = refuse_window,
          .layer = moe_layer};
}

Family dots1_family() {
  return {.name = "dots1",
          .architecture = "Dots1ForCausalLM",
          .gguf_architecture = "dots1",
          .mixture = true,
          .max_position_embeddings = 2048,
          .num_kv_heads = 32,
          .gguf_experts = {.gating = 2, .weighted = true, .counted = true, .leading = true},
          .flags = {kAttentionBias},
          .read = read_dots1,
          .write = write_dots1,
          .read_gguf = refuse_window,
          .layer = moe_layer};
}

}  // namespace forge::glm
