#pragma once
// Converts between the config.json of a Hugging Face folder and a ModelSpec.
#include <string>
#include <vector>

#include "core/model/families/model_spec.h"
#include "core/model/families/settings.h"

namespace forge {

struct Described;
struct Family;

// Limits far above any model, so that every product of sizes stays within 64 bits.
constexpr int64_t kMostVocab = 1 << 24, kMostHidden = 1 << 18, kMostIntermediate = 1 << 20,
                  kMostLayers = 1 << 10, kMostHeads = 1 << 12, kMostHeadDim = 1 << 12,
                  kMostPositions = int64_t{1} << 40, kMostExperts = 1 << 12;

// Returns the spec of a parsed config.json. `name` begins the messages. `described` is the family
// of a family file that reads it.
ModelSpec model_spec_from_config(const Json& config, const std::string& name, const Described* described = nullptr);
// A spec, and notes on the config.json that are not in the spec.
struct ReadConfig {
  ModelSpec spec;
  ConfigNotes notes;
};
ReadConfig read_config(const Json& config, const std::string& name, const Described* described = nullptr);
// Returns the config.json from which transformers builds the same decoder, without its dtype.
Json config_of_spec(const ModelSpec& spec);
// Reads rope_parameters (transformers 5) or rope_theta and rope_scaling (transformers 4) into
// spec.rope and spec.window_rope_theta. The sizes in `spec` must be read before. Two different
// values of one setting are a fault.
void read_rope(Settings& settings, const Family& family, ModelSpec& spec);
// Returns the divisors of the frequencies under llama3 scaling [rotary_dim / 2]; ones for any other
// type (modeling_rope_utils.py).
std::vector<float> llama3_divisors(const RopeSpec& rope, int64_t rotary_dim);
// Returns the factor of cosines and sines under yarn and longrope, given or derived; 1 for any
// other type.
double rope_attention_factor(const RopeSpec& rope);
const char* name_of(RopeType type);
// Throws Error(environment) for a word that name_of never says.
RopeType rope_type_of(const std::string& name);

// Returns one sentence for each inconsistency that no single key shows: heads that do not group, an
// odd head_dim or rotary dimension, missing longrope factors, token ids outside the vocabulary.
std::vector<std::string> spec_faults(const ModelSpec& spec);

// Suffix of transformers' class for a decoder whose head gives scores:
// "LlamaForSequenceClassification".
constexpr std::string_view kScoringSuffix = "ForSequenceClassification";
// Returns the class of the spec's family with that suffix.
std::string scoring_architecture(const ModelSpec& spec);

}  // namespace forge
