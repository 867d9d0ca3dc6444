#pragma once
#include <cstdint>

namespace forge {

// How many processes of this control group the kernel has killed for memory so far (cgroup v2 memory.events,
// v1 memory.oom_control); 0 when nobody counts.
int64_t memory_kills();

}  // namespace forge
