#pragma once
// Warnings of a plan that would run, but probably not as it was meant.
#include "core/data/report/findings.h"
#include "core/plan/plan.h"

namespace forge {

// Returns the warnings. Needs every value settled.
std::vector<std::string> warnings_of(const Plan& plan, const PlanInput& input);
// Returns the findings in the data, except those that another warning states.
std::vector<std::string> data_warnings(const Plan& plan, const DataFindings& findings);

}  // namespace forge
