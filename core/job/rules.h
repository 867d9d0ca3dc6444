#pragma once
// Rules between keys, and values that need more than a range. Each rule adds its fault at the value
// that must change.
#include "core/job/diagnostics.h"
#include "core/job/job.h"
#include "core/job/parse.h"

namespace forge {

// True for a value that turns off what is off by default (0, false), and for no samples. Such a
// value is allowed where its key has no effect. `key` is dotted.
bool asks_for_nothing(const Parsed& parsed, const std::string& key);

void check_rules(const Job& job, const Parsed& parsed, const Position& file, Diagnostics& faults);

}  // namespace forge
