#pragma once
// Plans the drawing of completions: what ends them, how many are drawn at once, and what that takes
// of memory and time.
#include "core/plan/plan.h"

namespace forge {

// Fills plan.rollout and rollout.slots.
void resolve_rollout(Plan& plan, const PlanInput& input, const Provider& provider);
// Returns the memory lines of drawing for training or for an evaluation, whichever takes more.
std::vector<MemoryLine> rollout_lines(const Plan& plan, const Provider& provider, const ActivationShape& shape);
// Fills plan.rollout.sample_seconds, from rates of the products that training does too; does
// nothing without rates.
void time_rollout(Plan& plan, const Rates* rates);

// Returns "32 of 64 completions at once, 2 waves; …".
std::string rollout_text(const Plan& plan);
// Returns "ratio is 1: …" and the like.
std::string updates_text(const Plan& plan);

}  // namespace forge
