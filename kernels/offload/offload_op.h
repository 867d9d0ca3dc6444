#pragma once
// Copies between the device's memory and the host's in a list, beside the other ops
// (core/model/graph/offload.h), on the device's third stream. Both halves of a copy have one slot.
#include "core/graph/op_record.h"
#include "kernels/call/arena.h"

namespace forge {

namespace ops {
// h →: begins to copy it out, after all that was computed so far.
extern const OpRecord store;
// h →: waits until it is, so that its place is free.
extern const OpRecord stored;
// → h: begins to copy it back.
extern const OpRecord load;
// → h: waits until it is there.
extern const OpRecord loaded;
}  // namespace ops

// Allocates memory and events for the copies of m.layout; existing ones are kept if they suffice.
// Throws Error(environment).
void place_on_host(ComputeDevice& device, StepMemory& m);

}  // namespace forge
