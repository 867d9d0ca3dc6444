#pragma once
// Reads quantization_config of a config.json: how the checkpoint holds its matrices.
#include <string>
#include <vector>

#include "core/model/families/pattern.h"
#include "core/model/families/settings.h"
#include "core/model/stored/stored_scheme.h"

namespace forge {

// Returns what the settings' quantization_config says; {} without one. A way that forge does not
// read is refused by name (unsupported), and a setting that is out of range is a fault.
StoredScheme read_stored_scheme(Settings& settings);
// Returns the scheme of a config.json that read_config() has accepted.
StoredScheme stored_scheme_of(const Json& config);
// Returns the scheme of a model's folder; {} without a config.json.
StoredScheme stored_scheme_in(const std::string& folder);
// Returns the scheme in a few words: "nf4 (bitsandbytes)"; empty for none, mxfp4 and fp8 in blocks.
std::string stored_as(const Json& config);

// Modules that a checkpoint keeps out of its codes, by transformers' rule for such lists: an entry
// matches a module whose path begins with it, as a regular expression, or ends with it.
class KeptModules {
 public:
  explicit KeptModules(const std::vector<std::string>& entries);
  bool has(const std::string& module) const;

 private:
  std::vector<std::string> endings_;
  std::vector<Pattern> beginnings_;
};

}  // namespace forge
