#pragma once
// Fits a run into the device's memory: chooses micro-batch and recomputation, or refuses with the
// remedy.
#include "core/plan/memory/fullest.h"
#include "core/plan/plan.h"

namespace forge {

// Returns the bytes of a GPU with `bytes` free that a plan leaves to LibTorch's allocator. It maps
// memory for each stream in pages of 2 and 20 MiB and so takes more than is in use: full
// fine-tuning with 8-bit states, planned to 2.1 GiB, needed between 1 and 3 % more
// (tests/hollow/check_hollow.py, "filled card").
int64_t allocator_slack(int64_t bytes);

// Settles train.micro_batch_*, train.activation_checkpointing, train.activation_offloading and
// optimizer.offload: no recomputation at the profile's knee if that fits, else less of one or the
// other, in that order of cost, and only then memory of the host. Throws Error(fit).
void resolve_memory(Plan& plan, const Profile& profile, const Provider& provider, const Provider* plain, const ExampleCounts& counts);

// Throws Error(environment) if `free_bytes` on the disk of the run folder are fewer than the plan
// will write.
void require_disk(const Plan& plan, int64_t free_bytes);

}  // namespace forge
