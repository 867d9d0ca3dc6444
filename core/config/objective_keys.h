#pragma once
// Which keys of `objective` mean something to which type.
#include <string>
#include <vector>

#include "core/config/job.h"

namespace forge {

// Keys of other types: "gamma" where the type is not simpo.
std::vector<std::string> keys_without_effect(const ObjectiveConfig& objective);

// Whether completions are drawn and scored.
bool is_policy(ObjectiveType type);

// Whether dpo's loss knows pairs that are the wrong way round.
bool takes_label_flip(DpoLoss loss);

}  // namespace forge
