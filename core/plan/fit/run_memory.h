#pragma once
// Lines of memory of a whole run: the memory that is held, and the fullest moment of what comes and
// goes.
#include <optional>

#include "core/plan/fit/fitted.h"
#include "core/plan/fit/fullest.h"
#include "core/plan/stages/inventory.h"
#include "core/plan/stages/provider.h"

namespace forge {

// One try of the search for memory: its sizes and choices, and the memory that a run takes with
// them.
struct Trial : RunMemory {
  MicroBatch micro_batch;
  Checkpointing checkpointing = Checkpointing::none;
  Offload activations = Offload::none, state = Offload::none;  // train.activation_offloading, optimizer.offload
  StepChoice step;
};

// Lines that do not depend on the micro-batch: memory held on the device and on the host, memory
// that updating and loading take, and what the value network holds on the device.
struct FixedMemory {
  std::vector<MemoryLine> held, on_host, update, loading, value;
};
// Returns them with the optimizer's state where `state` says.
FixedMemory fixed_memory(const Compute& plan, const std::vector<Parameter>& parameters, Offload state);

// The models and providers whose memory is counted, whatever is tried with them.
struct RunModels {
  Inventory policy;
  std::optional<Inventory> value;  // of the value network
  std::optional<Compute> value_plan;
  FixedMemory fixed;
  const Provider* provider = nullptr;
  const Provider* plain = nullptr;  // Search::plain
};

// Returns all lines of a try at the fullest moment of training and evaluation. `eval.tokens` 0:
// nothing to evaluate.
std::vector<MemoryLine> memory_lines(const Rollouts& plan, const RunModels& models, const Trial& trial, const Fullest& train, const Fullest& eval);

// Returns all lines of the host's memory (core/plan/fit/offload.h).
std::vector<MemoryLine> lines_on_host(const Compute& plan, const RunModels& models, const Trial& trial);

}  // namespace forge
