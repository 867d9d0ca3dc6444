#pragma once
#include <cstdint>

namespace forge {

// Returns how many processes of this control group the kernel has killed for memory so far (cgroup
// v2 memory.events, v1 memory.oom_control); 0 if there is no such counter.
int64_t memory_kills();

}  // namespace forge
