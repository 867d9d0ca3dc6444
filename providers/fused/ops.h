#pragma once
// Runs the ops of a list on a device: each from its values' places to a kernel's arguments.
#include "providers/fused/run.h"

namespace forge {

// Runs op number `index` of `memory.graph`. The head and what follows it are the caller's.
void run_op(ComputeDevice& device, const StepMemory& memory, size_t index, FusedModules& modules, const StepBatch& batch);

// Copies adapters that the list has folded to where its products read them: when they have changed.
void place_adapters(ComputeDevice& device, const StepMemory& memory, FusedModules& modules);

// The bytes of kernels/product's workspace, in a buffer that grows. CPU.
void row_product(ComputeDevice& device, RowProduct args, std::vector<char>& scratch);

}  // namespace forge
