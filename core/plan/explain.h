#pragma once
// A plan as text for people.
#include <string>

#include "core/plan/plan.h"

namespace forge {

// The device, every value that is not a plain default with origin and reason, memory by line, steps, disk,
// warnings. With `all`, defaults too.
std::string explain(const Plan& plan, bool all = false);
// `forge profile`: the device, the profile and each choice with its reason.
std::string explain_profile(const Device& device, const Profile& profile);

// The training step that the plan comes to, op by op, with its arena where the provider has one.
std::string explain_step(const Plan& plan, const Provider& provider);

}  // namespace forge
