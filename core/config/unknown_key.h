#pragma once
// Hints for keys that forge does not have.
#include <string>
#include <vector>

#include "core/config/diagnostics.h"
#include "core/config/field.h"
#include "core/config/node.h"

namespace forge {

// Adds the fault of a key of `map` that the section `prefix` ("", "optimizer.", "data.train[0].") does not have, and those
// of the keys below it: what each is here, or why forge has none, or the name in the same section that it is probably a
// misspelling of.
void refuse_unknown_key(const Member& member, const Node& map, const std::string& prefix,
                        Diagnostics& faults);

}  // namespace forge
