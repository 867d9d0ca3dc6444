#pragma once
// Finds settings that contradict each other, the model, the device or the data. Both functions
// throw KeyError(job) with all of them.
#include "core/plan/stages/setup.h"

namespace forge {

// Checks what can be checked before the data are read.
void check_job(const Job& job, const ModelSpec& model, const Device& device);
void refuse_contradictions(const Setup& plan);

}  // namespace forge
