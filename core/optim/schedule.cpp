#include "core/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace forge {

int64_t warmup_steps(const ScheduleConfig& schedule, int64_t steps) {
  if (schedule.warmup_steps) return *schedule.warmup_steps;
  return static_cast<int64_t>(std::ceil(schedule.warmup_ratio * static_cast<double>(steps)));
}

double learning_rate_factor(const ScheduleConfig& schedule, int64_t step, int64_t steps) {
  int64_t warmup = warmup_steps(schedule, steps);
  if (step < warmup) return static_cast<double>(step) / static_cast<double>(std::max<int64_t>(1, warmup));
  double length = static_cast<double>(std::max<int64_t>(1, steps - warmup));
  double progress = std::clamp(static_cast<double>(step - warmup) / length, 0.0, 1.0);
  double factor = 1;
  switch (schedule.type) {
    case ScheduleType::constant: return 1;
    case ScheduleType::linear: factor = 1 - progress; break;
    case ScheduleType::cosine: factor = 0.5 * (1 + std::cos(std::numbers::pi * progress)); break;
    case ScheduleType::wsd: {
      double decay = std::max(1.0, std::round(schedule.decay_ratio * static_cast<double>(steps)));
      factor = std::clamp(static_cast<double>(steps - step) / decay, 0.0, 1.0);
      break;
    }
  }
  return schedule.min_lr_ratio + (1 - schedule.min_lr_ratio) * factor;
}

}  // namespace forge
