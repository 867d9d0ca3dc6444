#pragma once
// How completions are drawn: what ends them, how many at once, what that takes of memory and time.
#include "core/plan/plan.h"

namespace forge {

// Fills plan.rollout and rollout.slots.
void resolve_rollout(Plan& plan, const PlanInput& input, const Provider& provider);
// Of drawing for training or for an evaluation, whichever takes more.
std::vector<MemoryLine> rollout_lines(const Plan& plan, const Provider& provider, const ActivationShape& shape);
// Fills plan.rollout.sample_seconds, from rates of the products that training does too; nothing without rates.
void time_rollout(Plan& plan, const Rates* rates);

// "32 of 64 completions at once, 2 waves; …"
std::string rollout_text(const Plan& plan);
// "ratio is 1: …" and the like.
std::string updates_text(const Plan& plan);

}  // namespace forge
