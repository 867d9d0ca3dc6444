#pragma once
// Rules between the keys of a reward: which belong to its type, and which the type needs.
#include "core/config/diagnostics.h"
#include "core/config/job.h"
#include "core/config/parse.h"

namespace forge {

// Adds a fault at each value that is to change. What files and patterns hold is checked where they are opened
// (core/reward/verifiers.h).
void check_rewards(const Job& job, const Parsed& parsed, const Position& file, Diagnostics& faults);

}  // namespace forge
