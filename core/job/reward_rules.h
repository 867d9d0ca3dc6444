#pragma once
// Rules between the keys of a reward: the types that read a key, and the keys that a type needs.
#include <map>
#include <string>

#include "core/job/diagnostics.h"
#include "core/job/job.h"
#include "core/job/parse.h"

namespace forge {

// Returns the fault in headers of requests; empty if there is none. A line break in a value would
// begin a header of its own (RFC 9110, 5.5). No message holds a value, which may be a secret.
std::string header_fault(const std::map<std::string, std::string>& headers);

// Adds a fault at each value that must change. The content of files and patterns is checked where
// they are opened (core/learn/reward/verifiers.h).
void check_rewards(const Job& job, const Parsed& parsed, const Position& file, Diagnostics& faults);

}  // namespace forge
