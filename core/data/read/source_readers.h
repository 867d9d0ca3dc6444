#pragma once
// What the readers of sources share; sources.h is the face.
#include <memory>
#include <string>

#include "core/data/read/sources.h"

namespace forge {

std::unique_ptr<RowSource> open_json_array(const std::string& path);

// Throws Error(data) "path:line:column: problem".
[[noreturn]] void fail_at(const std::string& path, int64_t line, int64_t column, const std::string& problem,
                          const std::string& hint = "");

}  // namespace forge
