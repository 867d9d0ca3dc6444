// Llama (Touvron et al., 2023): norms before attention and before a gated MLP, rotary positions,
// grouped queries. Mistral and Qwen2 are the same layer with other biases and windows; Qwen3 norms
// the heads of q and k.
#include "core/model/families/family.h"

namespace forge::llama {

Family llama_family() {
  return {.name = "llama",
          .architecture = "LlamaForCausalLM",
          .gguf_architecture = "llama",
          .max_position_embeddings = 2048,
          .flags = {kAttentionBias, kMlpBias},
          .read_gguf = refuse_window};
}

}  // namespace forge::llama
