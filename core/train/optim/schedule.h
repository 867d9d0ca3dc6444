#pragma once
// Learning-rate schedules. Like transformers, they count step k from 0, of N steps in all.
//
//   constant              1
//   linear                1 − p
//   cosine                (1 + cos π p) / 2
//   cosine_with_restarts  (1 + cos π (c p mod 1)) / 2, with c cycles; 0 at the end
//   polynomial            (1 − p)^power
//   wsd                   1, then over the last decay_ratio of the steps, of which a share q is done: 1 − q,
//                         (1 + cos π q) / 2 or 1 − √q
//   inverse_sqrt          √(s / (k + s − w)), where s is w, or 10,000 steps without a warmup
//
// with w warmup steps (k / w before), p = (k − w) / (N − w). min_lr_ratio is the floor: m + (1 − m)
// · factor.
#include <cstdint>

#include "core/job/job.h"

namespace forge {

double learning_rate_factor(const ScheduleConfig& schedule, int64_t step, int64_t steps);

// Like learning_rate_factor(), for a run that only train.max_time ends: N and k are seconds, and so
// is a warmup that is given as a share. warmup_steps stay steps, and the rest follows the clock
// from the run's beginning. inverse_sqrt counts steps unless its warmup is a share.
double learning_rate_factor_by_clock(const ScheduleConfig& schedule, int64_t step, double seconds,
                                     double max_seconds);

}  // namespace forge
