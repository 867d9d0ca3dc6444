#pragma once
// Finds a value in a row by the name of its column.
#include <string>

#include "core/lib/io/json.h"

namespace forge {

// Returns the value at a key or dotted path (`choices.0.text`); a key that contains dots comes
// first. Returns nullptr if there is none.
const Json* find_column(const Json& row, const std::string& path);

}  // namespace forge
