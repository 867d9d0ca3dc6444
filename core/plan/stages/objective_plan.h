#pragma once
// Settles the values that a job leaves to its objective: weights, the reference and its cost, the
// learning rate.
#include "core/plan/stages/batching.h"

namespace forge {

// Returns a plan whose limits are settled with its objective settled, too. Throws KeyError if data
// or settings do not suit the objective.
Batching with_objective(Batching plan);

// Returns, for kto, the weight of the desirable answers over that of the undesirable ones.
double class_ratio(const Setup& plan);

}  // namespace forge
