#pragma once
// Lines of memory of a whole run: the memory that is held, and the fullest moment of what comes and
// goes.
#include "core/plan/fit/fullest.h"
#include "core/plan/stages/inventory.h"
#include "core/plan/stages/provider.h"

namespace forge {

// Lines that do not depend on the micro-batch: memory held on the device and on the host, and
// memory that updating and loading take.
struct FixedMemory {
  std::vector<MemoryLine> held, on_host, update, loading;
};
FixedMemory fixed_memory(const Fitted& plan, const std::vector<Parameter>& parameters);

// Returns all lines of a plan whose micro-batch and checkpointing are settled, at the fullest
// moment of training and evaluation. `eval.tokens` 0: nothing to evaluate. `plain` is
// Search::plain.
std::vector<MemoryLine> memory_lines(const Fitted& plan, const Provider& provider, const Provider* plain, const Inventory& inventory, const FixedMemory& fixed,
                                     const Fullest& train, const Fullest& eval);

// Returns all lines of the host's memory (plan/memory/offload.h).
std::vector<MemoryLine> lines_on_host(const Fitted& plan, const Inventory& inventory, const FixedMemory& fixed);

}  // namespace forge
