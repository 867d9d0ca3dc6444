#pragma once
// Hints for keys that forge does not have.
#include <string>

#include "core/job/diagnostics.h"
#include "core/job/field.h"
#include "core/job/node.h"

namespace forge {

// Adds the faults of a key of `map` that the section `prefix` ("", "optimizer.", "data.train[0].")
// does not have, and of the keys below it. A fault says what the key is here, why forge has none,
// or which name of the section it probably misspells.
void refuse_unknown_key(const Member& member, const Node& map, const std::string& prefix,
                        Diagnostics& faults);

}  // namespace forge
