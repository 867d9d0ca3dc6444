#pragma once
// Reports a step's ops as they are enqueued, for measurements: `forge bench --trace`, `--ops` and
// `--kernels`. A run is not watched.
#include <functional>

#include "core/graph/graph.h"
#include "kernels/device/device.h"

namespace forge {

struct StepSpan {
  const char* name = "";            // of the op, or "step"
  const Graph* graph = nullptr;     // with op: what was run
  const Op* op = nullptr;           // or null
  int64_t tokens = 0, targets = 0;  // of the micro-batch
  Moment begin, end;                // ComputeDevice::seconds() reads them once the step is enqueued
};
// Called when the op was enqueued, which on a GPU is before it runs.
using StepWatch = std::function<void(const StepSpan&)>;

}  // namespace forge
