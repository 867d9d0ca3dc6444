// Llama (Touvron et al., 2023): norms before attention and before a gated MLP, rotary positions,
// grouped queries. Mistral and Qwen2 are the same layer with other biases and windows; Qwen3 norms
// the heads of q and k.
#include "core/model/families/family.h"
#include "kernels/rows/rows_op.h"

namespace forge {

Family llama_family() {
  return {.name = "llama",
          .architecture = "LlamaForCausalLM",
          .gguf_architecture = "llama",
          .max_position_embeddings = 2048,
          .flags = {kAttentionBias, kMlpBias},
          .read_gguf = refuse_window};
}

ValueId llama_layer(Recorder& g, const ModelSpec& m, const Family& family, int64_t layer, ValueId h) {
  h = add(g, h, self_attention(g, m, layer, norm(g, m, h, "input_layernorm")));
  return add(g, h, family.mlp(g, m, norm(g, m, h, "post_attention_layernorm")));
}

}  // namespace forge
