#pragma once
// The keys of config.json that each family's class in transformers reads, declares or ignores. They
// come from config_keys.txt, which tests/parity/make_config_keys.py generates from transformers'
// source.
//
//   const ConfigKeys& keys = config_keys_of("qwen3_moe");
//   keys.reads.count("use_qk_norm") == 0      // transformers never looks at it
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/lib/io/json.h"

namespace forge {

struct ConfigKeys {
  std::string architecture;                    // "Qwen3MoeForCausalLM"
  std::set<std::string> reads;                 // the class or its configuration reads them
  std::map<std::string, std::string> aliases;  // another name to the key it stands for
  std::map<std::string, Json> idle;            // declared and read by nothing, with their defaults
  // With towers: the defaults of text_config, by its model_type.
  std::map<std::string, std::map<std::string, Json>> text_defaults;
  std::vector<std::string> buffers;            // expressions: tensors of files that the class does not load

  // True for a dropout inside the base model that the class computes.
  bool is_dropout(const std::string& key) const;
};

// Returns the keys of a family; null for a family that the table lacks, such as a family file's.
const ConfigKeys* find_config_keys(const std::string& family);
// Returns the keys of the family ModelSpec::family. Throws Error(internal) for a family that the
// table lacks.
const ConfigKeys& config_keys_of(const std::string& family);

// True for a tensor of a file that transformers' class ignores.
bool ignored_tensor(const ConfigKeys& keys, const std::string& name);

}  // namespace forge
