#pragma once
// Runs the ops of a list on a CPU: each from its values' places to a kernel's arguments. Products are LibTorch's.
#include "core/model/batch_tensors.h"
#include "core/model/bound.h"
#include "providers/fused/arena.h"

namespace forge {

// The micro-batch as the kernels read it.
struct StepBatch {
  const BatchTensors* tensors = nullptr;
  at::Tensor cosine, sine;  // fp32 [tokens, rotary_dim / 2]
};

// Runs op number `index` of `memory.graph`. The head and what follows it are the caller's.
void run_cpu_op(const StepMemory& memory, size_t index, const std::vector<BoundModule>& modules,
                const StepBatch& batch);

}  // namespace forge
