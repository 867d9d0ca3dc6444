#pragma once
// A place in a job file, or the --set that states a value.
#include <cstdint>
#include <string>

namespace forge {

struct Position {
  std::string file;
  int64_t line = 0;    // from 1; 0: the place has no lines (a --set, a plan)
  int64_t column = 0;  // from 1, in characters
  // Returns "job.yaml:3:9", or the file's name alone; empty if no place is known.
  std::string text() const {
    return line == 0 ? file : file + ":" + std::to_string(line) + ":" + std::to_string(column);
  }
};

}  // namespace forge
