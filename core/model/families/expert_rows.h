#pragma once
// Decides which experts of a layer a plan may count as one row.
#include <set>
#include <string>

#include "core/job/job.h"
#include "core/model/families/model_spec.h"

namespace forge {

// Returns the rows of experts (ModuleUse::copies), by the first one's path, of which a name or an
// expression in the adapter's settings, or of the modules that a checkpoint keeps out of its codes,
// matches some and not all.
std::set<std::string> rows_apart(const ModelSpec& spec, const AdapterConfig& adapter);

}  // namespace forge
