#pragma once
// What the Gemma families share.
#include "core/families/family.h"

namespace forge {

constexpr const char* kGemmaActivation = "gelu_pytorch_tanh";
// Gemma 2 and 3 do not read hidden_act.
inline const std::map<std::string, std::string> kGemmaSpelling{{"hidden_act", "hidden_activation"}};

// Bounds of attention's scores and of the logits; 0: none.
struct GemmaCaps {
  double scores = 0, logits = 0;
};

// Of the norms and the embedding.
void set_gemma_constants(ModelSpec& spec);
void read_gemma(Settings& settings, ModelSpec& spec);
void write_gemma(const ModelSpec& spec, Json& config);
// Of Gemma 2 and 3: the scale of scores, and the caps where the file is silent.
void read_gemma_scores(Settings& settings, ModelSpec& spec, GemmaCaps absent);
void read_gemma_caps(GgufSettings& settings, ModelSpec& spec, GemmaCaps absent);
void write_gemma_scores(const ModelSpec& spec, Json& config);

// Norms on both sides of attention and of the MLP.
ValueId gemma2_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h);

}  // namespace forge
