#pragma once
// The length of a schedule's warmup. The plan warns about it and the optimizer follows it.
#include <cmath>
#include <cstdint>

#include "core/job/job.h"

namespace forge {

// Returns the optimizer steps of the warmup of a run of `steps`, as transformers counts them: step
// 0 has rate 0, and the returned step has the full rate.
inline int64_t warmup_steps(const ScheduleConfig& schedule, int64_t steps) {
  return schedule.warmup_steps.value_or(static_cast<int64_t>(std::ceil(schedule.warmup_ratio * static_cast<double>(steps))));
}

}  // namespace forge
