#pragma once
// The table of providers.
#include <string>
#include <vector>

#include "core/plan/provider.h"

namespace forge {

// In the order in which `provider: auto` tries them.
const std::vector<Provider>& providers();
// A plan's.
const Provider& provider_named(const std::string& name);
// The one of that name where it can do the job, else the first that can; "" names none.
const Provider& able_provider(const std::string& wanted, const ActivationShape& shape);

}  // namespace forge
