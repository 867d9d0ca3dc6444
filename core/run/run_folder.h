#pragma once
// What a run folder holds, read without starting an engine.
#include <cstdint>
#include <string>
#include <vector>

#include "core/io/json.h"

namespace forge {

struct RunState {
  bool exists = false;    // the folder holds a plan.json
  bool finished = false;  // its report says so and no amendment asks for more
  Json plan;              // as frozen at the start
  std::vector<Json> amendments;
  int64_t last_step = 0;  // of the newest whole checkpoint; 0: none
};

// Throws Error(environment) for a folder that is not a run's or whose files are broken.
RunState inspect_run(const std::string& folder);

}  // namespace forge
