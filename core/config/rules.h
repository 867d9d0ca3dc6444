#pragma once
// Rules between keys, and values that need more than a range. Each adds its fault at the value that is to
// change.
#include "core/config/diagnostics.h"
#include "core/config/job.h"
#include "core/config/parse.h"

namespace forge {

void check_rules(const Job& job, const Parsed& parsed, const Position& file, Diagnostics& faults);

}  // namespace forge
