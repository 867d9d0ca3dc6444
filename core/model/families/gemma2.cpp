// Gemma 2 (Gemma Team, 2024): Gemma with norms on both sides of attention and of the MLP, every
// second layer with a window, caps on the scores and on the logits.
#include <cmath>

#include "core/model/families/gemma_parts.h"

namespace forge {
namespace {

constexpr int64_t kWindow = 4096, kPeriod = 2;
constexpr GemmaCaps kCaps{50, 30};

void read(Settings& settings, ModelSpec& spec) {
  read_gemma(settings, spec);
  read_gemma_scores(settings, spec, kCaps);
  read_periodic_windows(settings, spec, kWindow, kPeriod);
}

// llama.cpp keeps no query_pre_attn_scalar. It is the head's width except in the 27B model, which
// is recognised by its number of layers.
void read_gguf(GgufSettings& settings, ModelSpec& spec) {
  constexpr int64_t kLayersOf27B = 46;
  set_gemma_constants(spec);
  if (spec.num_layers == kLayersOf27B)
    spec.attention_scale = 1 / std::sqrt(static_cast<double>(spec.hidden_size / spec.num_heads));
  read_gemma_caps(settings, spec, kCaps);
  set_periodic_windows(settings, spec, kWindow, kPeriod);
}

}  // namespace

Family gemma2_family() {
  return {.name = "gemma2",
          .architecture = "Gemma2ForCausalLM",
          .gguf_architecture = "gemma2",
          .max_position_embeddings = 8192,
          .num_kv_heads = 4,
          .activation = kGemmaActivation,
          .tied = true,
          .spelling = kGemmaSpelling,
          .read = read,
          .write = write_gemma_scores,
          .read_gguf = read_gguf,
          .layer = gemma2_layer};
}

}  // namespace forge
