// SmolLM3 (Hugging Face, 2025): Llama's layer. Every fourth layer has no rotary positions.
#include "core/model/families/family.h"

namespace forge::smollm3 {
namespace {

constexpr int64_t kInterval = 4;

bool turns_nothing(int64_t layer, int64_t interval) { return (layer + 1) % interval == 0; }

// no_rope_layers has a 1 for each layer with rotary positions.
void read_no_rope_layers(Settings& settings, ModelSpec& spec) {
  const int64_t interval = settings.integer("no_rope_layer_interval", 1, 1 << 10, kInterval);
  std::vector<int64_t> turns;
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) turns.push_back(!turns_nothing(layer, interval));
  if (settings.find("no_rope_layers")) turns = settings.ids("no_rope_layers");
  if (static_cast<int64_t>(turns.size()) < spec.num_layers)
    return settings.broken("no_rope_layers", "has fewer entries than num_hidden_layers");
  for (int64_t layer = 0; layer < spec.num_layers; ++layer)
    if (turns[static_cast<size_t>(layer)] == 0) spec.no_rope_layers.push_back(layer);
}

void read(Settings& settings, ModelSpec& spec) {
  spec.qkv_bias = spec.o_bias = settings.flag("attention_bias", false);
  spec.mlp_bias = settings.flag("mlp_bias", false);
  read_no_rope_layers(settings, spec);
  const int64_t window = window_setting(settings, 0);
  spec.sliding_window = settings.flag("use_sliding_window", false) ? window : 0;
  read_layer_types(settings, spec, [&](int64_t layer) { return spec.turns(layer); });
}

void read_gguf(Settings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  for (int64_t layer = 0; layer < spec.num_layers; ++layer)
    if (turns_nothing(layer, kInterval)) spec.no_rope_layers.push_back(layer);
}

void write(const ModelSpec& spec, Json& config) {
  Json turns = Json::array();
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) turns.push_back(spec.turns(layer) ? 1 : 0);
  config["no_rope_layers"] = turns;
  config["attention_bias"] = spec.qkv_bias;
  config["mlp_bias"] = spec.mlp_bias;
  config["use_sliding_window"] = spec.sliding_window > 0;
  write_windows(spec, config);
}

}  // namespace

Family smollm3_family() {
  return {.name = "smollm3",
          .architecture = "SmolLM3ForCausalLM",
          .gguf_architecture = "smollm3",
          .max_position_embeddings = 32768,
          .num_kv_heads = 4,
          .rope_theta = 2e6,
          .tied = true,
          .read = read,
          .write = write,
          .read_gguf = read_gguf};
}

}  // namespace forge::smollm3
