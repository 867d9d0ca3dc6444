#pragma once
// What a plan warns of: it would run, and probably not as it was meant.
#include "core/data/report/findings.h"
#include "core/plan/plan.h"

namespace forge {

// Appends to plan.warnings. Needs every value settled.
void add_warnings(Plan& plan, const PlanInput& input);
// Appends what was found in the data, but for what another warning says.
void add_data_warnings(Plan& plan, const DataFindings& findings);

}  // namespace forge
