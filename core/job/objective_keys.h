#pragma once
// The keys of `objective` that each type reads.
#include <string>
#include <vector>

#include "core/job/job.h"

namespace forge {

// Returns the keys that only other types read: "gamma" if the type is not simpo.
std::vector<std::string> keys_without_effect(const ObjectiveConfig& objective);

// True if the type draws and scores completions.
bool is_policy(ObjectiveType type);

// True if dpo's loss takes label_flip, the assumed share of pairs with swapped labels.
bool takes_label_flip(DpoLoss loss);

}  // namespace forge
