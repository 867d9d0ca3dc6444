#pragma once
// The lines of memory of a whole run: what is held, and the fullest moment of what comes and goes.
#include "core/plan/inventory.h"
#include "core/plan/memory/fullest.h"

namespace forge {

// Whether each micro-batch takes a forward more, without the adapter.
bool computes_reference(const Plan& plan);

// What is held, on the device and on the host, and what updating and loading take, of any micro-batch.
struct FixedMemory {
  std::vector<MemoryLine> held, on_host, update, loading;
};
FixedMemory fixed_memory(const Plan& plan, const std::vector<Parameter>& parameters);

// All lines of a plan whose micro-batch and checkpointing are settled, at the fullest moment of training and
// evaluation. `eval.tokens` 0: nothing to evaluate. `plain`: Search's.
std::vector<MemoryLine> memory_lines(const Plan& plan, const Provider& provider, const Provider* plain, const Inventory& inventory, const FixedMemory& fixed,
                                     const Fullest& train, const Fullest& eval);

// The same of the host's memory (plan/offload.h).
std::vector<MemoryLine> lines_on_host(const Plan& plan, const Inventory& inventory, const FixedMemory& fixed);

}  // namespace forge
