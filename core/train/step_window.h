#pragma once
// The steps that one line of metrics tells of.
#include "core/train/state.h"
#include "core/train/step.h"

namespace forge {

void add(StepWindow& window, const StepStats& stats);

// Returns the members of the event `step` that come from its steps: sums, and means of their losses
// and metrics. `last` are the stats of the newest.
Json step_facts(const StepWindow& window, const StepStats& last);

}  // namespace forge
