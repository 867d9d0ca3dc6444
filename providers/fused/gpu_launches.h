#pragma once
// The launches of a GPU for one op of a list. `forge plan --graph` prints their sums; a test
// compares them with the launches that the emulated device gets. No torch.
#include "kernels/call/listed_launches.h"
#include "providers/aten/aten_plan.h"

namespace forge {

// Returns the launches of the op's kernels; none if ATen computes it.
inline GpuLaunches gpu_launches(const Graph& graph, const Op& op, const StepSizes& sizes, const GpuStep& step = {}) {
  return aten_reason(graph, op, sizes).empty() ? listed_launches(graph, op, sizes, step) : GpuLaunches{};
}

}  // namespace forge
