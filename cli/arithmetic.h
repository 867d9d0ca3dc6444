#pragma once
// The things besides the job that decide the last bits of a run's results: processor, LibTorch,
// engine, and the variables that choose instruction sets. A run that is continued under other
// arithmetic equals an uninterrupted one to rounding only.
//
//   for (const auto& [key, value] : arithmetic_of(plan)) plan.execution[key] = value;
//   plan.execution["arithmetic.processor"]               // "AMD EPYC 7B13"
//   plan.execution["arithmetic.ATEN_CPU_CAPABILITY"]     // "avx2"; variables that are not set have no entry
#include <map>
#include <string>

#include "core/plan/plan.h"

namespace forge {

std::map<std::string, std::string> arithmetic_of(const Plan& plan);

// Returns the name within the arithmetic of a key of Plan::execution: "processor". Empty for other
// keys.
std::string arithmetic_name(const std::string& execution_key);

}  // namespace forge
