#pragma once
// Checks an adapter folder without computing with it: whether it is whole, fits its model, was
// trained, and which programs load it.
#include <optional>
#include <string>
#include <vector>

#include "core/lib/io/json.h"
#include "core/model/families/model_spec.h"

namespace forge {

struct Loader {
  std::string program;  // "PEFT"
  std::string refusal;  // why it cannot load the folder; empty: it can
};

struct AdapterCheck {
  int64_t tensors = 0, parameters = 0, bytes = 0;
  int64_t modules = 0;             // with low-rank factors
  int64_t least_rank = 0, most_rank = 0;
  std::vector<std::string> faults;    // reasons why it cannot be used
  std::vector<std::string> warnings;  // oddities: factors B that are zero, a model that is missing
  std::vector<Loader> loaders;
};

// Checks a folder. `base` is the spec of the model it is for, if known. No fault of the folder
// throws an error.
AdapterCheck check_adapter(const std::string& folder, const std::optional<ModelSpec>& base);

Json to_json(const AdapterCheck& check);

}  // namespace forge
