#pragma once
// The search for micro-batch and recomputation under which a plan fits into memory.
#include "core/plan/memory/run_memory.h"

namespace forge {

// Everything the search needs to try a plan.
struct Search {
  const ExampleCounts* counts;
  const Provider* provider;
  const Provider* plain;  // the one that runs plain ATen, as fp8's gate does; null where the caller has none
  int64_t knee, smallest;  // of the micro-batch, in tokens
  bool fixed_batch, fixed_checkpointing, fixed_offloading, fixed_offload;  // the last two: of activations, of the optimizer's state
};

// Sets train.micro_batch_tokens and _size to about `tokens`.
void set_micro_batch(Plan& plan, int64_t tokens);
// Sizes to try, largest first; never less than the longest example, which cannot be cut.
std::vector<int64_t> sizes(const Plan& plan, int64_t from, int64_t to);
// The fastest plan that fits, by its arithmetic and its number of micro-batches. What is not fixed is offloaded only if none fits
// otherwise: first activations, whose copies run beside the layers, then the optimizer's state, which a step waits for. Else false, with
// the plan that needs least.
bool fits(Plan& plan, const Search& search);

}  // namespace forge
