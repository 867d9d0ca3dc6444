#pragma once
// Finds the shared libraries that an engine lacks on this machine, by asking the loader itself
// without starting the engine.
//
//   std::vector<std::string> names = missing_libraries(location);   // {"libcufile.so.0"}
#include <string>
#include <vector>

#include "cli/engine_location.h"

namespace forge {

// Reads them as ldd does: with every run path, cache and variable that the engine's start obeys.
// Takes about 10 ms. Empty also if the loader does not answer: the engine's start will then say
// what is wrong.
std::vector<std::string> missing_libraries(const EngineLocation& location);

// Returns how to get them: LibTorch's wheels with their CUDA libraries, or the system's packages.
std::string library_remedy(const std::vector<std::string>& names);

}  // namespace forge
