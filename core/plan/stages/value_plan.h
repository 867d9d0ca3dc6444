#pragma once
// The additions of ppo's value network to a plan; core/model/families/value_model.h describes the
// network.
#include "core/model/families/value_model.h"
#include "core/plan/stages/inventory.h"

namespace forge {

// True if the job has a value network.
bool has_value_network(const Setup& plan);
// value_plan returns the plan as if the value network were its model; value_step returns its
// choices beside those of the policy, and value_inventory its parameters.
Compute value_plan(const Compute& plan);
StepChoice value_step(const Compute& plan, const StepChoice& policy);
Inventory value_inventory(const Setup& plan);

// Returns the lines of its weights, gradients and optimizer state beside the policy's; the frozen
// base is shared. `state` is where optimizer state lies.
std::vector<MemoryLine> value_fixed_lines(const Compute& plan, Offload state);
// Returns the lines of that state that are in the host's memory (optimizer.offload).
std::vector<MemoryLine> value_host_lines(const Compute& plan, Offload state);
// Returns the bytes that the network adds to a checkpoint.
int64_t value_checkpoint_bytes(const Setup& plan);
// Returns "an adapter and a head of its own, 1,234 weights; learning rate 5e-05; …".
std::string value_text(const Setup& plan);

}  // namespace forge
