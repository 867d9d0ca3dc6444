#include "core/train/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace forge {

namespace {

double half_cosine(double progress) { return 0.5 * (1 + std::cos(std::numbers::pi * progress)); }

double restarting_cosine(double cycles) { return half_cosine(cycles - std::floor(cycles)); }

// Returns the factor of wsd's decay when a share `progress` of it is done.
double shaped(DecayShape shape, double progress) {
  switch (shape) {
    case DecayShape::linear: return 1 - progress;
    case DecayShape::cosine: return half_cosine(progress);
    case DecayShape::sqrt: break;
  }
  return 1 - std::sqrt(progress);
}

// transformers' timescale for a run without a warmup.
constexpr double kInverseSqrtSteps = 10'000;

// Returns the factor after the warmup. `done`, `whole`, `warmup` and `decay` have one unit.
double decayed(const ScheduleConfig& schedule, double done, double whole, double warmup, double decay) {
  const double left = std::max(whole - warmup, std::numeric_limits<double>::min());
  const double progress = std::clamp((done - warmup) / left, 0.0, 1.0);
  double factor = 1;
  switch (schedule.type) {
    case ScheduleType::constant: return 1;
    case ScheduleType::linear: factor = 1 - progress; break;
    case ScheduleType::cosine: factor = half_cosine(progress); break;
    case ScheduleType::cosine_with_restarts:
      factor = progress < 1 ? restarting_cosine(static_cast<double>(schedule.cycles) * progress) : 0;
      break;
    case ScheduleType::polynomial: factor = std::pow(1 - progress, schedule.power); break;
    case ScheduleType::wsd: factor = shaped(schedule.decay, std::clamp(1 - (whole - done) / decay, 0.0, 1.0)); break;
    case ScheduleType::inverse_sqrt: {
      const double scale = warmup > 0 ? warmup : kInverseSqrtSteps;
      return std::sqrt(scale / (done + scale - warmup));
    }
  }
  return schedule.min_lr_ratio + (1 - schedule.min_lr_ratio) * factor;
}

}  // namespace

double learning_rate_factor(const ScheduleConfig& schedule, int64_t step, int64_t steps) {
  const int64_t warmup = warmup_steps(schedule, steps);
  if (step < warmup) return static_cast<double>(step) / static_cast<double>(warmup);
  const auto whole = static_cast<double>(steps);
  return decayed(schedule, static_cast<double>(step), whole, static_cast<double>(warmup),
                 std::max(1.0, std::round(schedule.decay_ratio * whole)));
}

double learning_rate_factor_by_clock(const ScheduleConfig& schedule, int64_t step, double seconds,
                                     double max_seconds) {
  if (schedule.warmup_steps && step < *schedule.warmup_steps)
    return static_cast<double>(step) / static_cast<double>(*schedule.warmup_steps);
  if (schedule.type == ScheduleType::inverse_sqrt && (schedule.warmup_steps || schedule.warmup_ratio == 0))
    return learning_rate_factor(schedule, step, 0);
  const double warmup = schedule.warmup_steps ? 0 : schedule.warmup_ratio * max_seconds;
  if (seconds < warmup) return seconds / warmup;
  return decayed(schedule, seconds, max_seconds, warmup,
                 std::max(schedule.decay_ratio * max_seconds, std::numeric_limits<double>::min()));
}

}  // namespace forge
