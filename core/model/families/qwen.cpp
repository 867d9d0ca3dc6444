// Qwen2 (Yang et al., 2024) and Qwen3 (2025): Llama's layer with biases on q, k and v, or with
// norms on the heads of q and k.
#include "core/model/families/family.h"

namespace forge {
namespace {

// Windows begin at layer max_window_layers, and only if use_sliding_window is set.
void read_windows(Settings& settings, ModelSpec& spec) {
  const int64_t window = window_setting(settings, 4096),
                first = settings.integer("max_window_layers", 0, 1 << 20, 28);
  spec.sliding_window = settings.flag("use_sliding_window", false) ? window : 0;
  read_layer_types(settings, spec, [first](int64_t layer) { return layer < first; });
}

void read_qwen2(Settings& settings, ModelSpec& spec) {
  spec.qkv_bias = true;
  read_windows(settings, spec);
}

void read_qwen3(Settings& settings, ModelSpec& spec) {
  spec.qkv_bias = spec.o_bias = settings.flag("attention_bias", false);
  spec.qk_norm = true;
  if (!settings.has("head_dim")) spec.head_dim = 128;
  read_windows(settings, spec);
}

void write_windows(const ModelSpec& spec, Json& config) {
  config["use_sliding_window"] = spec.sliding_window > 0;
  config["sliding_window"] = window_json(spec);
  if (spec.sliding_window > 0) config["layer_types"] = layer_types_json(spec);
}

void write_qwen3(const ModelSpec& spec, Json& config) {
  config["attention_bias"] = spec.qkv_bias;
  write_windows(spec, config);
}

}  // namespace

Family qwen2_family() {
  return {.name = "qwen2",
          .architecture = "Qwen2ForCausalLM",
          .gguf_architecture = "qwen2",
          .max_position_embeddings = 32768,
          .num_kv_heads = 32,
          .read = read_qwen2,
          .write = write_windows,
          .read_gguf = refuse_window,
          .layer = llama_layer};
}

Family qwen3_family() {
  return {.name = "qwen3",
          .architecture = "Qwen3ForCausalLM",
          .gguf_architecture = "qwen3",
          .max_position_embeddings = 32768,
          .num_kv_heads = 32,
          .read = read_qwen3,
          .write = write_qwen3,
          .read_gguf = refuse_window,
          .layer = llama_layer};
}

}  // namespace forge
