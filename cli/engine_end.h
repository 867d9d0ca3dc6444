#pragma once
// Explains why an engine ended without an error event.
#include <cstdint>
#include <string>

#include "core/lib/base/error.h"

namespace forge {

// Returns how many processes of this control group the kernel has killed for memory so far (cgroup
// v2 memory.events, v1 memory.oom_control); 0 if there is no such counter.
int64_t memory_kills();

// The end of an engine, for explain_end.
struct EngineEnd {
  int status = 0;              // as waitpid gives it
  std::string standard_error;  // its last lines
  bool out_of_memory = false;  // the kernel's counter of out-of-memory kills rose meanwhile
  int stop_requests = 0;       // signals that asked it to stop
  bool trains = true;          // only then are there checkpoints to continue from
};
// Returns the error that an end without an `error` event means.
Error explain_end(const EngineEnd& end);

}  // namespace forge
