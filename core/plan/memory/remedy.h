#pragma once
// A plan that does not fit is refused with the change of the job that would make it fit.
#include "core/plan/memory/search.h"

namespace forge {

// Throws Error(fit) with the largest part and the cheapest remedy. `smallest` is what the search came to.
[[noreturn]] void refuse(const Plan& asked, const Plan& smallest, const Search& search);

}  // namespace forge
