#pragma once
// What keys of a policy that learns from drawn completions (grpo, ppo) say together.
#include "core/config/diagnostics.h"
#include "core/config/job.h"
#include "core/config/parse.h"

namespace forge {

void check_policy(const Job& job, const Parsed& parsed, const Position& file, Diagnostics& faults);

}  // namespace forge
