#pragma once
// Refuses a plan that does not fit, with the change of the job that would make it fit.
#include "core/plan/fit/search.h"

namespace forge {

// Throws Error(fit) with the largest part and the cheapest remedy. `smallest` is the try with
// which the search ended.
[[noreturn]] void refuse(const Schedule& asked, const Trial& smallest, const Search& search);

}  // namespace forge
