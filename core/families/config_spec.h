#pragma once
// config.json of a Hugging Face folder as a ModelSpec.
#include <string>
#include <vector>

#include "core/families/model_spec.h"
#include "core/families/settings.h"

namespace forge {

struct Family;

// Limits far above any model, so that every product of sizes stays within 64 bits.
constexpr int64_t kMostVocab = 1 << 24, kMostHidden = 1 << 18, kMostIntermediate = 1 << 20,
                  kMostLayers = 1 << 10, kMostHeads = 1 << 12, kMostHeadDim = 1 << 12,
                  kMostPositions = int64_t{1} << 40, kMostExperts = 1 << 12;

// Settings of config.json that never change what the decoder computes.
bool harmless_setting(const std::string& key);

// The spec of a parsed config.json. `name` begins the messages.
ModelSpec model_spec_from_config(const Json& config, const std::string& name);
// The spec, and what is not in it.
struct ReadConfig {
  ModelSpec spec;
  ConfigNotes notes;
};
ReadConfig read_config(const Json& config, const std::string& name);
// The other way: what transformers builds the same model from, without its dtype.
Json config_of_spec(const ModelSpec& spec);
// rope_parameters (transformers 5) or rope_theta and rope_scaling (transformers 4).
// spec.rope and spec.window_rope_theta; reads what the sizes before it have set. Two that differ are a fault.
void read_rope(Settings& settings, const Family& family, ModelSpec& spec);
// Returns what llama3 scaling divides the frequencies by [rotary_dim / 2]; ones for any other type (modeling_rope_utils.py).
std::vector<float> llama3_divisors(const RopeSpec& rope, int64_t rotary_dim);
// Returns what yarn and longrope multiply cosines and sines by, given or derived; 1 for any other type.
double rope_attention_factor(const RopeSpec& rope);
const char* name_of(RopeType type);
// Throws Error(environment) for a word that name_of never says.
RopeType rope_type_of(const std::string& name);

// Consistency that no single key shows: grouping of heads, an even head_dim, sizes that multiply within 64
// bits. Each fault is a sentence.
std::vector<std::string> spec_faults(const ModelSpec& spec);

// What transformers calls a decoder whose head gives scores: "LlamaForSequenceClassification".
constexpr std::string_view kScoringSuffix = "ForSequenceClassification";
// The architecture of a model under that name: of what it was read from, or of its family.
std::string scoring_architecture(const ModelSpec& spec);

}  // namespace forge
