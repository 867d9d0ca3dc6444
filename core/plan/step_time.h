#pragma once
// Plans the time of a step, from the list that the engine will run and this machine's rates.
#include <string>
#include <vector>

#include "core/plan/machine/rates.h"

namespace forge {

struct PlannedTime {
  double step_seconds = 0;  // 0: not known
  double run_seconds = 0;   // of all steps, without evaluations, checkpoints and loading; 0: not known
  std::string reason;       // what it is based on, or why it is not known and what to do
};

struct Plan;
// Returns the planned time. `lengths` are the tokens of the training examples.
PlannedTime planned_time(const Plan& plan, const std::vector<int64_t>& lengths, const Rates* rates);

// Returns Σ length² / Σ length.
double mean_attended_length(const std::vector<int64_t>& lengths);

}  // namespace forge
