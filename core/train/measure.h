#pragma once
// Runs steps of a plan to measure their time and memory. Nothing is written or kept.
#include "core/train/step.h"

namespace forge {

struct MeasureRequest {
  Plan plan;
  int64_t steps = 3;         // measured at least, after one that warms up; three on a GPU, whose graphs are captured by then
  double least_seconds = 2;  // short steps are repeated until then
  // On a GPU, `trace` and `ops` are made from further steps, which run op by op without graphs and
  // are timed by events on the device.
  std::string trace;         // a file for Chrome's trace viewer; empty: none
  bool ops = false;          // an event `ops`, after the last step: where the time went
  double most_seconds = 60;  // no further step begins after so long; one is measured in any case
};

// Emits one `measured` event a step, the first ones with `warm_up`, and `done`. Throws
// Error(interrupted) after a stop, c10::OutOfMemoryError where the plan's memory does not suffice:
// a measurement halves no micro-batch.
void measure(const MeasureRequest& request, const EventSink& emit, const StopFlag& stop);

}  // namespace forge
