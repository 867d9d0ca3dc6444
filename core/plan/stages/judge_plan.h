#pragma once
// Adds the reward models of a job to its plan.
#include "core/plan/files/judge_model.h"
#include "core/plan/stages/compute.h"
#include "core/plan/stages/provider.h"

namespace forge {

// Throws KeyError(job) if the provider cannot compute one of the job's reward models.
void require_judges(const Compute& plan, const Provider& provider);

// Returns the lines of the judge's weights, which are held beside all else. judge_shape() describes
// one batch of it, which shares the memory of the policy's step.
std::vector<MemoryLine> judge_fixed_lines(const Compute& plan, const JudgeModel& judge);
ActivationShape judge_shape(const Compute& plan, const JudgeModel& judge);

}  // namespace forge
