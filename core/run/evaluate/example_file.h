#pragma once
// Writes examples that a command made itself, in the format of the file that the engine reads.
#include <cstdint>
#include <string>
#include <vector>

#include "core/data/dataset.h"

namespace forge {

struct MadeExample {
  std::vector<int32_t> ids;
  int64_t first = 1;  // ids from here on are predicted; at least 1
  int64_t line = 1;   // of `source`
};

// Writes `path` as a whole. Throws Error(environment).
DataSet write_examples(const std::string& path, const std::string& source,
                       const std::vector<MadeExample>& examples);

}  // namespace forge
