// EXAONE 4 (LG AI Research, 2025): OLMo 2's order of norms, with norms on single heads of q and k.
// The larger model has layers with a window, and rotary positions in these alone.
#include <numeric>

#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "kernels/rows/rows_op.h"

namespace forge::exaone {
namespace {

constexpr int64_t kWindow = 4096, kPeriod = 4;

// Takes the rotary positions from the layers with full attention of a model that has a window,
// even one that no layer uses.
void turn_windows_alone(ModelSpec& spec) {
  spec.no_rope_layers = spec.full_layers;
  if (spec.sliding_window > 0) return;
  spec.no_rope_layers.resize(static_cast<size_t>(spec.num_layers));
  std::iota(spec.no_rope_layers.begin(), spec.no_rope_layers.end(), int64_t{0});
}

// The pattern counts only for a file without layer_types. It is a period there; files also write
// it as letters, "LLLG", beside their list.
int64_t read_period(Settings& settings) {
  const Json* pattern = settings.find("sliding_window_pattern");
  if (settings.find("layer_types") && pattern && pattern->is_string()) return kPeriod;
  return settings.integer("sliding_window_pattern", 1, kMostLayers, kPeriod);
}

void read(Settings& settings, ModelSpec& spec) {
  spec.qk_norm = true;
  spec.sliding_window = window_setting(settings, kWindow);
  if (spec.sliding_window == 0 && settings.find("sliding_window"))
    settings.broken("sliding_window", "is 0, expected the tokens of a window, or null for none");
  const bool windows = spec.sliding_window > 0;
  int64_t period = kPeriod;
  if (windows)
    period = read_period(settings);
  else
    settings.find("sliding_window_pattern");  // says nothing without a window
  read_layer_types(settings, spec, [period](int64_t layer) { return (layer + 1) % period == 0; });
  if (windows) turn_windows_alone(spec);
}

void write(const ModelSpec& spec, Json& config) {
  const bool windows = spec.sliding_window > 0 || !spec.no_rope_layers.empty();
  config["sliding_window"] =
      windows ? Json(spec.sliding_window > 0 ? spec.sliding_window : kWindow) : Json(nullptr);
  write_layer_types(spec, config);
}

void read_gguf(Settings& settings, ModelSpec& spec) {
  spec.qk_norm = true;
  if (!settings.has(".attention.sliding_window")) return;
  set_periodic_windows(settings, spec, kWindow, kPeriod);
  turn_windows_alone(spec);
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  h = add(g, h, norm(g, m, self_attention(g, m, layer, h), "post_attention_layernorm"));
  return add(g, h, norm(g, m, gated_mlp(g, m, h), "post_feedforward_layernorm"));
}

}  // namespace

Family exaone4_family() {
  return {.name = "exaone4",
          .architecture = "Exaone4ForCausalLM",
          .gguf_architecture = "exaone4",
          .max_position_embeddings = 2048,
          .num_kv_heads = 32,
          .norm_eps = 1e-5,
          .read = read,
          .write = write,
          .read_gguf = read_gguf,
          .layer = layer};
}

}  // namespace forge::exaone
