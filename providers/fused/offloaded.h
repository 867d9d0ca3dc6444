#pragma once
// Values that wait in the host's memory (core/graph/offload.h): their copies, on the device's third stream.
#include "providers/fused/run.h"

namespace forge {

// Memory and events for the copies of m.layout; what it holds already is kept where it is enough. Throws Error(environment).
void place_on_host(ComputeDevice& device, StepMemory& m);

namespace fused {

// Begin a copy behind all that was computed so far.
void store(const FusedRun& r);
void load(const FusedRun& r);
void wait_for_copy(const FusedRun& r);

}  // namespace fused
}  // namespace forge
