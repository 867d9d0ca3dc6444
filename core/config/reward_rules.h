#pragma once
// Rules between the keys of a reward: which belong to its type, and which the type needs.
#include <map>
#include <string>

#include "core/config/diagnostics.h"
#include "core/config/job.h"
#include "core/config/parse.h"

namespace forge {

// The fault in headers of requests; empty: none. A line break in a value would begin a header of its own
// (RFC 9110, 5.5); no message holds a value, which may be a secret.
std::string header_fault(const std::map<std::string, std::string>& headers);

// Adds a fault at each value that is to change. What files and patterns hold is checked where they are opened
// (core/reward/verifiers.h).
void check_rewards(const Job& job, const Parsed& parsed, const Position& file, Diagnostics& faults);

}  // namespace forge
