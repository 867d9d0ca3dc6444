#pragma once
// The examples of an optimizer step, and the values that the objective decides.
#include "core/plan/stages/compute.h"

namespace forge {

// Settled in the job: the run's limits, the objective, train.global_batch_size, the optimizer's
// numbers.
struct Batching : Compute {};

// Settles the batches. Throws KeyError if data or settings do not suit the objective.
Batching plan_batching(const Compute& compute);

// Returns, for kto, the weight of the desirable answers over that of the undesirable ones.
double class_ratio(const Setup& plan);

}  // namespace forge
