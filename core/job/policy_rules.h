#pragma once
// Rules between the keys of a policy that learns from drawn completions (grpo, ppo).
#include <optional>

#include "core/job/diagnostics.h"
#include "core/job/job.h"
#include "core/job/parse.h"

namespace forge {

void check_policy(const Job& job, const Parsed& parsed, const Position& file, Diagnostics& faults);

// Returns rollout.correction, or its default if it is not set: the largest weight of a token that
// was drawn by other weights. Without a value, tokens have no weights.
std::optional<double> correction_limit(const RolloutConfig& rollout);

}  // namespace forge
