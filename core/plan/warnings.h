#pragma once
// What a plan warns of: it would run, and probably not as it was meant.
#include "core/plan/plan.h"

namespace forge {

// Appends to plan.warnings. Needs every value settled.
void add_warnings(Plan& plan, const PlanInput& input);

}  // namespace forge
