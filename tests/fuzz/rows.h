#pragma once
// Reads a data file like training does: it is cut into rows, parsed, mapped and converted, and
// every fault gets its place.
#include <string>

namespace forge {

// Throws the error with which the file itself is refused; faults of rows are ignored.
void read_source(const std::string& path);

}  // namespace forge
