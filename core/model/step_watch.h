#pragma once
// What a step does and when, for whoever wants to know: `forge bench --trace` and `--kernels`. Nobody watches a run.
#include <chrono>
#include <functional>

#include "core/graph/graph.h"

namespace forge {

struct StepSpan {
  const char* name = "";          // of the op, or "step"
  const Graph* graph = nullptr;   // with op: what was run
  const Op* op = nullptr;         // or null
  int64_t tokens = 0, targets = 0;  // of the micro-batch
  std::chrono::steady_clock::time_point begin, end;

  double seconds() const { return std::chrono::duration<double>(end - begin).count(); }
};
using StepWatch = std::function<void(const StepSpan&)>;

}  // namespace forge
