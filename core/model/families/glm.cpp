// GLM-4 (Zeng et al., 2024) and its successor of 2025: gate and up in one matrix, rotary positions
// on neighbouring pairs in the first half of each head. The successor has norms on both sides of
// attention and of the MLP.
#include "core/model/families/family.h"
#include "kernels/rows/rows_op.h"

namespace forge {
namespace {

void read(Settings& settings, ModelSpec& spec) {
  if (!settings.has("head_dim")) spec.head_dim = 128;
  spec.rope.interleaved = true;
}

void read_gguf(Settings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  spec.rope.interleaved = true;
}

ValueId glm4_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  ValueId x = self_attention(g, m, layer, norm(g, m, h, "input_layernorm"));
  h = add(g, h, norm(g, m, x, "post_self_attn_layernorm"));
  x = merged_gated_mlp(g, m, norm(g, m, h, "post_attention_layernorm"));
  return add(g, h, norm(g, m, x, "post_mlp_layernorm"));
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

}  // namespace forge
