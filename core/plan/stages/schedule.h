#pragma once
// The steps of a run.
#include "core/plan/stages/rollout_plan.h"

namespace forge {

struct Schedule : Rollouts {
  int64_t steps_per_epoch = 0;
  int64_t steps = 0;  // of the whole run; 0: open, train.max_time ends it
};

}  // namespace forge
