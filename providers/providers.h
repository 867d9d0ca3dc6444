#pragma once
// The table of providers.
#include <vector>

#include "core/plan/provider.h"

namespace forge {

// In the order in which `provider: auto` tries them.
const std::vector<Provider>& providers();

}  // namespace forge
