#pragma once
// The folder that holds the runs of a job and their caches: checks its free space and removes what
// killed processes left there.
#include <string>

#include "core/plan/plan.h"

namespace forge {

// Throws Error(environment) when the run cannot write what its plan says: too little space is free
// (less what `run_folder` holds already), a quota is exceeded, or nothing can be written at all. No
// file remains.
void require_room(const Plan& plan, const std::string& run_folder);

// Removes what killed processes of this machine left in output_dir: half token caches, runs that
// were being discarded.
void remove_output_litter(const std::string& output_dir);

}  // namespace forge
