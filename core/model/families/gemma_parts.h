#pragma once
// Settings and layers that the Gemma families share.
#include "core/model/families/family.h"

namespace forge {

constexpr const char* kGemmaActivation = "gelu_pytorch_tanh";
// Gemma 2 and 3 do not read hidden_act.
inline const std::map<std::string, std::string> kGemmaSpelling{{"hidden_act", "hidden_activation"}};

// Bounds of attention's scores and of the logits; 0: none.
struct GemmaCaps {
  double scores = 0, logits = 0;
};

// Sets the constants of the norms and of the embedding.
void set_gemma_constants(ModelSpec& spec);
void read_gemma(Settings& settings, ModelSpec& spec);
void write_gemma(const ModelSpec& spec, Json& config);
// Read and write the scale and the caps of scores in Gemma 2 and 3. `absent` holds the caps if the
// file states none.
void read_gemma_scores(Settings& settings, ModelSpec& spec, GemmaCaps absent);
void read_gemma_caps(GgufSettings& settings, ModelSpec& spec, GemmaCaps absent);
void write_gemma_scores(const ModelSpec& spec, Json& config);

// Records a layer with norms before and after attention and the MLP.
ValueId gemma2_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h);

}  // namespace forge
