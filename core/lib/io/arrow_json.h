#pragma once
// Converts values of Arrow arrays to JSON.
#include <arrow/array.h>

#include <string>

#include "core/lib/io/json.h"

namespace forge {

// Returns the type, or a type inside it, for which JSON has no value, in Arrow's words; empty when
// there is none.
std::string type_without_json(const arrow::DataType& type);

// Returns value `index` of an array of a type that type_without_json passes. `column` begins the
// messages. Throws std::runtime_error for texts that are not UTF-8, keys that occur twice in a map
// and indices outside a dictionary.
Json json_of(const arrow::Array& array, int64_t index, const std::string& column);

}  // namespace forge
