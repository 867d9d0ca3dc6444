#pragma once
// What the value network of ppo adds to a plan: core/families/value_model.h says what it is.
#include "core/families/value_model.h"
#include "core/plan/inventory.h"

namespace forge {

// Whether the job has one.
bool has_value_network(const Plan& plan);
// The plan as if the value network were its model, and that one's parameters.
Plan value_plan(const Plan& plan);
Inventory value_inventory(const Plan& plan);

// Its weights, gradients and optimizer state beside the policy's; the frozen base is shared.
std::vector<MemoryLine> value_fixed_lines(const Plan& plan);
// Of that state, what lies in the host's memory (optimizer.offload).
std::vector<MemoryLine> value_host_lines(const Plan& plan);
// Of a checkpoint.
int64_t value_checkpoint_bytes(const Plan& plan);
// "an adapter and a head of its own, 1,234 weights; learning rate 5e-05; …"
std::string value_text(const Plan& plan);

}  // namespace forge
