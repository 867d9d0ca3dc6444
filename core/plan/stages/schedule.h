#pragma once
// The steps of a run.
#include "core/data/batch/packing.h"
#include "core/plan/stages/rollout_plan.h"

namespace forge {

struct Schedule : Rollouts {
  int64_t steps_per_epoch = 0;
  int64_t steps = 0;  // of the whole run; 0: open, train.max_time ends it
};

// Settles the steps, from the examples' lengths if they are known. `first_epoch` has its steps, or
// its batches of prompts.
Schedule plan_schedule(const Rollouts& rollouts, const std::vector<int64_t>& lengths, const Parts& first_epoch);

}  // namespace forge
