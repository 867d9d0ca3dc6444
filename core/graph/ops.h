#pragma once
// The table of ops: what each is called, what its values must look like, and what it costs.
#include "core/graph/graph.h"

namespace forge {

struct Cost {
  double flops = 0, bytes = 0;  // bytes that must at least be moved between memory and the processor
};

const char* name_of(OpKind kind);

// Of its first input, or of what it makes; 0 for an op without values.
int64_t rows_of(const Graph& graph, const Op& op, const StepSizes& sizes);

// For the micro-batch of `sizes`; `mean_length` is the tokens that a token attends to on average, times two.
Cost cost_of(const Graph& graph, const Op& op, const StepSizes& sizes, double mean_length);

}  // namespace forge
