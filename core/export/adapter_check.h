#pragma once
// What can be said of an adapter folder without computing with it: whether it is whole, fits its model, was trained, and which
// programs load it.
#include <optional>
#include <string>
#include <vector>

#include "core/families/model_spec.h"
#include "core/io/json.h"

namespace forge {

struct Loader {
  std::string program;  // "PEFT"
  std::string refusal;  // why it cannot load the folder; empty: it can
};

struct AdapterCheck {
  int64_t tensors = 0, parameters = 0, bytes = 0;
  int64_t modules = 0;             // with low-rank factors
  int64_t least_rank = 0, most_rank = 0;
  std::vector<std::string> faults;    // it cannot be used
  std::vector<std::string> warnings;  // it can, but something is odd: factors B that are zero, a model that is not here
  std::vector<Loader> loaders;
};

// `base`: the spec of the model it is for, where that is at hand. Nothing is thrown for what the folder holds.
AdapterCheck check_adapter(const std::string& folder, const std::optional<ModelSpec>& base);

Json to_json(const AdapterCheck& check);

}  // namespace forge
