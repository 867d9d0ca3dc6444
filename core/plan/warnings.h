#pragma once
// Adds the warnings of a plan that would run, but probably not as it was meant.
#include "core/data/report/findings.h"
#include "core/plan/plan.h"

namespace forge {

// Appends to plan.warnings. Needs every value settled.
void add_warnings(Plan& plan, const PlanInput& input);
// Appends the findings in the data, except those that another warning states.
void add_data_warnings(Plan& plan, const DataFindings& findings);

}  // namespace forge
