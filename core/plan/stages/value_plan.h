#pragma once
// The additions of ppo's value network to a plan; core/model/families/value_model.h describes the
// network.
#include "core/model/families/value_model.h"
#include "core/plan/stages/inventory.h"

namespace forge {

// True if the job has a value network.
bool has_value_network(const Setup& plan);
// value_plan returns the plan as if the value network were its model; value_step returns its
// choices beside those of the policy.
Compute value_plan(const Compute& plan);
StepChoice value_step(const Compute& plan, const StepChoice& policy);

// Returns the bytes that the network adds to a checkpoint.
int64_t value_checkpoint_bytes(const Setup& plan);
// Returns "an adapter and a head of its own, 1,234 weights; learning rate 5e-05; …".
std::string value_text(const Setup& plan);

}  // namespace forge
