#pragma once
// ${env:NAME} and ${env:NAME:-default} in the texts of a job, ${NAME} where the name is in capitals. `$${` stands for
// `${`. In paths also $NAME, and ~ at the beginning.
#include "core/config/layers.h"

namespace forge {

// Replaces the references below `node`. A variable that is not set and has no default is a fault; an empty
// result is "not set". Values that look secret are noted, so that nothing prints them.
void substitute_environment(Node& node, const Environment& environment, std::vector<Secret>& secrets,
                            Diagnostics& faults);

struct ExpandedPath {
  std::string path;                 // as written where a variable is not set
  std::string unset;                // the variable without a value: HOME for ~; empty if there is none
  std::vector<Secret> secrets = {};  // values that look secret
};
ExpandedPath expand_path(const std::string& path, const Environment& environment);

// By the name of the variable (…TOKEN, …SECRET, …KEY, …PASSWORD) or the shape of the value (hf_…, sk-…, …).
bool looks_secret(const std::string& variable, const std::string& value);

}  // namespace forge
