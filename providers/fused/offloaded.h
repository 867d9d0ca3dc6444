#pragma once
// Values that wait in the host's memory (core/model/graph/offload.h): copies them on the device's
// third stream.
#include "providers/fused/run.h"

namespace forge {

// Allocates memory and events for the copies of m.layout; existing ones are kept if they suffice.
// Throws Error(environment).
void place_on_host(ComputeDevice& device, StepMemory& m);

namespace fused {

// Begin a copy after all that was computed so far.
void store(const FusedRun& r);
void load(const FusedRun& r);
void wait_for_copy(const FusedRun& r);

}  // namespace fused
}  // namespace forge
