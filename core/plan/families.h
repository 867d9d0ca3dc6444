#pragma once
// The table of model families: what forge knows of each architecture before any weight is read. Every family
// here is the Llama decoder (RMSNorm, rotary positions, grouped-query attention, SwiGLU) with other biases
// and defaults.
#include <string>
#include <vector>

#include "core/plan/model_spec.h"
#include "core/plan/settings.h"

namespace forge {

// Limits far above any model, so that every product of sizes stays within 64 bits.
constexpr int64_t kMostVocab = 1 << 24, kMostHidden = 1 << 18, kMostIntermediate = 1 << 20,
                  kMostLayers = 1 << 10, kMostHeads = 1 << 12, kMostHeadDim = 1 << 12,
                  kMostPositions = int64_t{1} << 40;

struct Family {
  std::string name;               // ModelSpec::family
  std::string architecture;       // config.json: architectures[0]
  std::string gguf_architecture;  // general.architecture; empty: its GGUF files say another family's
  // What the architecture's configuration class in transformers assumes when config.json is silent.
  int64_t max_position_embeddings, num_kv_heads;  // 0: as many as heads
  // Reads the settings that only this family has, and refuses those that leave the Llama decoder.
  void (*read)(Settings& settings, ModelSpec& spec);
};

const std::vector<Family>& families();

// Rows by the name a file uses. Throw Error(job) "unknown architecture X; forge knows …".
const Family& family_of_architecture(const std::string& architecture, const std::string& where);
const Family& family_of_gguf(const std::string& architecture, const std::string& where);

// Settings of config.json that never change what the decoder computes.
bool harmless_setting(const std::string& key);

// The spec of a parsed config.json. `name` begins the messages.
ModelSpec model_spec_from_config(const Json& config, const std::string& name);
// rope_parameters (transformers 5) or rope_theta and rope_scaling (transformers 4).
RopeSpec rope_from_config(Settings& settings, int64_t max_position_embeddings);
const char* name_of(RopeType type);
// Throws Error(environment) for a word that name_of never says.
RopeType rope_type_of(const std::string& name);

// Consistency that no single key shows: grouping of heads, an even head_dim, sizes that multiply within 64
// bits. Each fault is a sentence.
std::vector<std::string> spec_faults(const ModelSpec& spec);

}  // namespace forge
