#pragma once
// What keys of a policy that learns from drawn completions (grpo, ppo) say together.
#include <optional>

#include "core/config/diagnostics.h"
#include "core/config/job.h"
#include "core/config/parse.h"

namespace forge {

void check_policy(const Job& job, const Parsed& parsed, const Position& file, Diagnostics& faults);

// rollout.correction, or what it is where nothing is set: the most that a token weighs which other weights drew. Nothing: tokens have no
// weights.
std::optional<double> correction_limit(const RolloutConfig& rollout);

}  // namespace forge
