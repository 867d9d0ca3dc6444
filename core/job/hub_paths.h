#pragma once
// Replaces `repo: org/name` of a model or a data source by its path in the hub's cache on this
// machine.
#include <map>
#include <string>

#include "core/job/diagnostics.h"
#include "core/job/layers.h"
#include "core/job/origin.h"

namespace forge {

// Writes `path` beside every `repo`: the folder of the revision, or the file or pattern in it that
// `path` names. An absolute path is kept, as in a job that was resolved before. A repository that
// was not fetched gets the path where it would be looked for.
void rewrite_hub_names(Node& root, const Environment& environment, std::map<std::string, Origin>& derived, Diagnostics& faults);

}  // namespace forge
