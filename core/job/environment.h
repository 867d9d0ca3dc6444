#pragma once
// Replaces ${env:NAME} and ${env:NAME:-default} in the texts of a job, and ${NAME} if the name is
// in capitals. `$${` stands for `${`. Paths may also have $NAME, and ~ at the beginning.
#include <string_view>

#include "core/job/layers.h"

namespace forge {

// Replaces the references below `node`. A variable that is not set and has no default is a fault.
// An empty result means "not set". Values that look secret are added to `secrets`, so that they are
// never printed.
void substitute_environment(Node& node, const Environment& environment, std::vector<Secret>& secrets,
                            Diagnostics& faults);

struct ExpandedPath {
  std::string path;                 // unchanged if a variable is not set
  std::string unset;                // the variable without a value: HOME for ~; empty if there is none
  std::vector<Secret> secrets = {};  // values that look secret
};
ExpandedPath expand_path(const std::string& path, const Environment& environment);

// True if `text` begins like the tokens of a service (hf_…, sk-…, ghp_…).
bool begins_token(std::string_view text);
// True if the variable's name (…TOKEN, …SECRET, …KEY, …PASSWORD) or the value's shape (hf_…, sk-…,
// …) looks secret.
bool looks_secret(const std::string& variable, const std::string& value);

}  // namespace forge
