#pragma once
// One try of the search for memory: its sizes and choices, and the memory that a run takes with
// them.
#include "core/plan/fit/fitted.h"

namespace forge {

struct Trial {
  MicroBatch micro_batch;
  Checkpointing checkpointing = Checkpointing::none;
  Offload activations = Offload::none, state = Offload::none;  // train.activation_offloading, optimizer.offload
  StepChoice step;

  std::vector<MemoryLine> memory, host_memory;
  BatchRoom training_batch, evaluation_batch;
  int64_t peak_bytes = 0;  // the sum of `memory`
};

// Returns the plan with the sizes and choices of a try.
Fitted with_trial(const Schedule& plan, const Trial& trial, int64_t available_bytes);

}  // namespace forge
