#pragma once
// The table of providers.
#include <string>
#include <vector>

#include "core/plan/stages/provider.h"

namespace forge {

// Returns the providers in the order in which `provider: auto` tries them.
const std::vector<Provider>& providers();
// Returns the provider that a plan names.
const Provider& provider_named(const std::string& name);
// Returns the provider of that name if it can do the job, otherwise the first that can; "" names
// none.
const Provider& able_provider(const std::string& wanted, const ActivationShape& shape);

}  // namespace forge
