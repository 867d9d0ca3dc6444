#pragma once
// Searches the micro-batch and recomputation under which a plan fits into memory.
#include "core/plan/fit/run_memory.h"

namespace forge {

// Values that the search needs to try a plan.
struct Search {
  const ExampleCounts* counts;
  const Provider* provider;
  const Provider* plain;  // the one that runs plain ATen, as fp8's gate does; null where the caller has none
  int64_t available_bytes;
  int64_t knee, smallest;  // of the micro-batch, in tokens
  bool fixed_batch, fixed_checkpointing, fixed_offloading, fixed_offload;  // the last two: of activations, of the optimizer's state
};

// The try with which a search ends: the fastest that fits, or the one that needs least if none
// does.
struct SearchResult {
  bool fits = false;
  Trial trial;
};

// Returns the micro-batch of about `tokens`.
MicroBatch micro_batch_of(const Schedule& plan, int64_t tokens);
// Returns the sizes to try, largest first; never less than the longest example, which cannot be
// cut.
std::vector<int64_t> sizes(const Schedule& plan, int64_t from, int64_t to);
// Finds the fastest try that fits, by its arithmetic and its number of micro-batches. Settings that
// are not fixed are offloaded only if nothing fits otherwise: first activations, whose copies run
// beside the layers, then the optimizer's state, which a step waits for.
SearchResult find_fit(const Schedule& plan, const Search& search);

// Throws Error(fit) with the largest part and the cheapest remedy: the change of the job that would
// make it fit. `smallest` is the try with which the search ended.
[[noreturn]] void refuse(const Schedule& asked, const Trial& smallest, const Search& search);

}  // namespace forge
