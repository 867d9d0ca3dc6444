// Mistral (Jiang et al., 2023): Llama's layer, with a sliding window in every layer.
#include "core/model/families/family.h"

namespace forge {
namespace {

void read(Settings& settings, ModelSpec& spec) {
  spec.sliding_window = window_setting(settings, 4096);
  read_layer_types(settings, spec, [](int64_t) { return false; });
}

void write(const ModelSpec& spec, Json& config) { config["sliding_window"] = window_json(spec); }

}  // namespace

Family mistral_family() {
  return {.name = "mistral",
          .architecture = "MistralForCausalLM",
          .gguf_architecture = "",
          .max_position_embeddings = 131072,
          .num_kv_heads = 8,
          .read = read,
          .write = write,
          .layer = llama_layer};
}

}  // namespace forge
