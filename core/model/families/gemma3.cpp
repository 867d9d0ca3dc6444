// Gemma 3, the text model (Gemma Team, 2025): Gemma 2's layer with norms on the heads of q and k in
// place of caps. Every sixth layer has full attention and another RoPE base than those with a
// window.
#include <cmath>

#include "core/model/families/config_spec.h"
#include "core/model/families/gemma_parts.h"

namespace forge {
namespace {

constexpr int64_t kWindow = 4096, kPeriod = 6;

void read(Settings& settings, ModelSpec& spec) {
  read_gemma(settings, spec);
  settings.must_be("attn_logit_softcapping", nullptr, "no cap on the scores");
  read_gemma_scores(settings, spec, {});
  spec.qk_norm = true;
  read_periodic_windows(settings, spec, kWindow, settings.integer("sliding_window_pattern", 1, kMostLayers, kPeriod));
}

void read_gguf(GgufSettings& settings, ModelSpec& spec) {
  constexpr int64_t kLayersOf27B = 62;
  set_gemma_constants(spec);
  if (spec.num_layers == kLayersOf27B)
    spec.attention_scale = 1 / std::sqrt(static_cast<double>(spec.hidden_size / spec.num_heads));
  read_gemma_caps(settings, spec, {});
  spec.window_rope_theta = settings.number("rope.freq_base_swa", 1, 1e12, 10000);
  set_periodic_windows(settings, spec, kWindow, kPeriod);
}

void write(const ModelSpec& spec, Json& config) {
  write_gemma_scores(spec, config);
  if (spec.window_rope_theta == 0) return;
  config.erase("rope_theta");
  config["rope_parameters"] = {{"full_attention", config["rope_parameters"]},
                               {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", spec.window_rope_theta}}}};
}

}  // namespace

Family gemma3_family() {
  return {.name = "gemma3_text",
          .architecture = "Gemma3ForCausalLM",
          .gguf_architecture = "gemma3",
          .max_position_embeddings = 131072,
          .num_kv_heads = 4,
          .activation = kGemmaActivation,
          .rope_theta = 1e6,
          .window_rope_theta = 1e4,
          .tied = true,
          .spelling = kGemmaSpelling,
          .read = read,
          .write = write,
          .read_gguf = read_gguf,
          .layer = gemma2_layer};
}

}  // namespace forge
