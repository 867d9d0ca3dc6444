#pragma once
// A description of a model family: a YAML document that says what a page of C++ would (its settings
// in config.json, its modules, its layer). Forge's own lie in described/, and a job names another
// one in model.family. docs/family-files.md is its reference.
//
//   const Description d = parse_description(text, "family.yaml");   // throws every fault at once
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/lib/io/json.h"
#include "core/model/families/layer_steps.h"

namespace forge {

// A key of config.json that only this family has.
struct DescribedSetting {
  std::string key;
  std::vector<const SpecMember*> sets;  // empty: the value must be `value`
  Json value;                           // the value of a missing key; null: it is required
  std::string because;                  // the reason of one that must be
  double least = 0, most = 1;           // of a number
  bool inverse = false;                 // the members are 1 / the value
  std::map<std::string, bool> words;    // the values of a flag that is stated in words
  std::array<std::string, 2> written;   // the words that are written for false and true
  std::string gguf;                     // key of a GGUF, after the architecture; empty: none
};

enum class GgufWindows { refused, stated, periodic };

struct DescribedWindows {
  int64_t absent = 0;      // window if config.json has none; 0: full attention
  int64_t full_every = 0;  // each so many layers have full attention; 0: none
  std::string full_every_key;
  bool rotary_in_windows = false;  // layers with full attention have no rotary positions
  GgufWindows gguf = GgufWindows::refused;
};

struct DescribedModules {
  std::string embedding = "model.embed_tokens", positions, layers = "model.layers.";
  std::string final_norm = "model.norm", head = "lm_head", stored_head;
};

struct Description {
  std::string name, architecture, gguf;
  int64_t max_position_embeddings = 0, num_kv_heads = 0, head_dim = 0, mlp_ratio = 0;
  std::vector<std::string> activations{"silu"};  // words of hidden_act; the first is the default
  double norm_eps = 1e-6, rope_theta = 10000;
  std::optional<double> partial_rotary_factor;  // none: the family rotates whole heads
  bool tied = false;
  bool padding_row = true;
  std::map<std::string, std::string> spelling;
  std::vector<DescribedSetting> settings;
  std::vector<std::pair<const SpecMember*, Json>> fixed, fixed_in_gguf;
  std::vector<std::string> ignores;  // keys of config.json that change nothing
  bool neighbours = false;           // rotary pairs are features 2i and 2i + 1
  std::optional<DescribedWindows> windows;
  DescribedModules modules;
  LayerSteps layer;
};

constexpr int64_t kLargestDescription = 64 << 10;

// Parses a description. `name` begins every fault. Throws JobErrors with all of them.
Description parse_description(std::string_view text, const std::string& name);

}  // namespace forge
