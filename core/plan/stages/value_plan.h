#pragma once
// The additions of ppo's value network to a plan; core/model/families/value_model.h describes the
// network.
#include "core/model/families/value_model.h"
#include "core/plan/stages/inventory.h"

namespace forge {

// True if the job has a value network.
bool has_value_network(const Setup& plan);
// value_plan returns the plan as if the value network were its model; value_inventory returns that
// model's parameters.
Compute value_plan(const Compute& plan);
Inventory value_inventory(const Setup& plan);

// Returns the lines of its weights, gradients and optimizer state beside the policy's; the frozen
// base is shared.
std::vector<MemoryLine> value_fixed_lines(const Compute& plan);
// Returns the lines of that state that are in the host's memory (optimizer.offload).
std::vector<MemoryLine> value_host_lines(const Compute& plan);
// Returns the bytes that the network adds to a checkpoint.
int64_t value_checkpoint_bytes(const Setup& plan);
// Returns "an adapter and a head of its own, 1,234 weights; learning rate 5e-05; …".
std::string value_text(const Setup& plan);

}  // namespace forge
