#pragma once
// Runs the ops of a list on a device: turns the places of an op's values into a kernel's arguments.
#include "providers/fused/run.h"

namespace forge {

// Runs an op of a layer.
void run_op(const FusedRun& r);
// Runs op number `index` of `memory.graph`. The caller runs the head and the ops after it.
void run_op(ComputeDevice& device, const StepMemory& memory, size_t index, StepWeights& weights, const StepBatch& batch);

// Copies adapters that the list has folded to the matrices that its products read, after the
// adapters have changed.
void place_adapters(ComputeDevice& device, const StepMemory& memory, StepWeights& weights);

// Runs a product with kernels/product's workspace in `scratch`, a buffer that grows. CPU.
void row_product(ComputeDevice& device, RowProduct args, std::vector<char>& scratch);

}  // namespace forge
