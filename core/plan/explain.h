#pragma once
// Explains a plan as text for people.
#include <string>

#include "core/plan/plan.h"

namespace forge {

// Returns the device, every value that is not a plain default with origin and reason, memory by
// line, steps, disk and warnings. With `all`, defaults too.
std::string explain(const Plan& plan, bool all = false);
// Returns the text of `forge profile`: the device, the profile and each choice with its reason.
std::string explain_profile(const Device& device, const Profile& profile);

// Returns the training step of the plan, op by op, with its arena if the provider has one.
std::string explain_step(const Plan& plan, const Provider& provider);

}  // namespace forge
