#pragma once
// Fits a run into the device's memory: chooses micro-batch and recomputation, or refuses with the
// remedy.
#include "core/plan/fit/fitted.h"
#include "core/plan/fit/fullest.h"

namespace forge {

// Settles train.micro_batch_*, train.activation_checkpointing, train.activation_offloading and
// optimizer.offload: no recomputation at the profile's knee if that fits, else less of one or the
// other, in that order of cost, and only then memory of the host. Throws Error(fit).
Fitted plan_memory(const Schedule& schedule, const Profile& profile, const Provider& provider, const Provider* plain, const ExampleCounts& counts);

}  // namespace forge
