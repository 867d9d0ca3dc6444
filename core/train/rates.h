#pragma once
// Measures this machine's rates: steps of small models with random weights, op by op, for
// core/plan/machine/rates.h.
#include <vector>

#include "core/plan/machine/rates.h"
#include "core/train/step.h"

namespace forge {

// Emits a `rate` event a point and `done`. Throws Error(interrupted) after a stop. `seconds` are
// approximate: after three times as long, a family's first model alone is measured, the smallest.
void measure_rates(const std::vector<Precision>& precisions, double seconds, const EventSink& emit,
                   const StopFlag& stop);

}  // namespace forge
