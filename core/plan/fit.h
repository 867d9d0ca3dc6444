#pragma once
// Memory against what the device has: chooses micro-batch and recomputation, or refuses with the remedy.
#include "core/plan/plan.h"

namespace forge {

// The parameters and adapted sites of a plan's job.
struct Inventory {
  std::vector<Parameter> parameters;
  std::vector<AdapterSite> sites;
};
Inventory inventory_of(const Plan& plan);

// All lines of a plan whose micro-batch and checkpointing are settled. `tokens` is the most of one
// micro-batch.
std::vector<MemoryLine> memory_lines(const Plan& plan, const Inventory& inventory, int64_t tokens);

// Settles train.micro_batch_* and train.activation_checkpointing: no recomputation at the profile's knee if
// that fits, else less of one or the other, in that order of cost. Throws Error(fit).
void resolve_memory(Plan& plan, const Profile& profile, const std::vector<int64_t>& lengths);

// Error(environment) when `free_bytes` on the disk of the run folder are fewer than the plan will write.
void require_disk(const Plan& plan, int64_t free_bytes);

}  // namespace forge
