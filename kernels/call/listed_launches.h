#pragma once
// The launches of a GPU for one op of a list. The op runs as in the engine, on a device that lists
// what it is given (kernels/device/launches.h). No torch.
#include "kernels/call/planned_call.h"
#include "kernels/device/launches.h"

namespace forge {

// Returns the launches of an op that kernels compute. The list is empty for the head, norm and
// update, which belong to the run. It is also empty for experts' products, whose number depends on
// the experts that get rows in a micro-batch. DoRA is not listed yet.
GpuLaunches listed_launches(const Graph& graph, const Op& op, const StepSizes& sizes, const GpuStep& step = {});

}  // namespace forge
