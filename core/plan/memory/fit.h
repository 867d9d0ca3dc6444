#pragma once
// Memory against what the device has: chooses micro-batch and recomputation, or refuses with the remedy.
#include "core/plan/memory/fullest.h"
#include "core/plan/plan.h"

namespace forge {

// Settles train.micro_batch_*, train.activation_checkpointing, train.activation_offloading and optimizer.offload: no recomputation at
// the profile's knee if that fits, else less of one or the other, in that order of cost, and only then memory of the host. Throws
// Error(fit).
void resolve_memory(Plan& plan, const Profile& profile, const Provider& provider, const Provider* plain, const ExampleCounts& counts);

// Error(environment) when `free_bytes` on the disk of the run folder are fewer than the plan will write.
void require_disk(const Plan& plan, int64_t free_bytes);

}  // namespace forge
