// StableLM 2 (Bellagente et al., 2024): Llama's layer between layer norms with biases, with rotary
// positions on a part of each head.
#include "core/model/families/family.h"
#include "kernels/rows/rows_op.h"

namespace forge {
namespace {

void read(Settings& settings, ModelSpec& spec) {
  spec.layer_norm = spec.norm_bias = true;
  settings.must_be("qk_layernorm", false, "no norms of q and k");
}

void read_gguf(Settings& settings, ModelSpec& spec) {
  spec.layer_norm = spec.norm_bias = true;
  spec.parallel_residual = settings.flag(".use_parallel_residual", false);
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  ValueId x = norm(g, m, h, "input_layernorm");
  ValueId attended = self_attention(g, m, layer, x);
  if (m.parallel_residual) {
    ValueId changed = gated_mlp(g, m, x);
    return add(g, add(g, h, attended), changed);
  }
  h = add(g, h, attended);
  return add(g, h, gated_mlp(g, m, norm(g, m, h, "post_attention_layernorm")));
}

}  // namespace

Family stablelm_family() {
  return {.name = "stablelm",
          .architecture = "StableLmForCausalLM",
          .gguf_architecture = "stablelm",
          .max_position_embeddings = 4096,
          .num_kv_heads = 32,
          .norm_eps = 1e-5,
          .partial_rotary = true,
          .partial_rotary_factor = 0.25,
          .spelling = {{"rms_norm_eps", "layer_norm_eps"}},
          .flags = {{"use_qkv_bias", false, {&ModelSpec::qkv_bias}},
                    {"use_parallel_residual", false, {&ModelSpec::parallel_residual}}},
          .read = read,
          .read_gguf = read_gguf,
          .layer = layer};
}

}  // namespace forge
