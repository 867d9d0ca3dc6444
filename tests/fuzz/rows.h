#pragma once
// A data file as training reads it: cut into rows, parsed, mapped, converted, and every fault placed.
#include <string>

namespace forge {

// Throws what the file itself is refused with; faults of rows are consumed.
void read_source(const std::string& path);

}  // namespace forge
