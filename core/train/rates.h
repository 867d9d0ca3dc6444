#pragma once
// Measures this machine's rates: steps of small models with random weights, op by op, for
// core/plan/machine/rates.h.
#include <vector>

#include "core/plan/machine/rates.h"
#include "core/train/step.h"

namespace forge {

struct RatesRequest {
  std::vector<Precision> precisions;
  // Approximate. After three times as long, a family's first model alone is measured, the smallest.
  double seconds = 120;
};

// Emits a `rate` event a point and `done`. Throws Error(interrupted) after a stop.
void measure_rates(const RatesRequest& request, const EventSink& emit, const StopFlag& stop);

}  // namespace forge
