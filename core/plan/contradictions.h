#pragma once
// Settings that contradict each other, the model, the device or the data. Both throw KeyError(job) with all of them.
#include "core/plan/plan.h"

namespace forge {

// Those that show before the data are looked at.
void check_job(const Job& job, const ModelSpec& model, const Device& device);
void refuse_contradictions(const Plan& plan);

}  // namespace forge
