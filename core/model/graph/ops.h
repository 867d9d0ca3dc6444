#pragma once
// Table of ops: the name of each, the rows of its values, and its cost.
#include "core/model/graph/graph.h"

namespace forge {

struct Cost {
  double flops = 0, bytes = 0;  // bytes that must at least be moved between memory and the processor
};

const char* name_of(OpKind kind);

// Returns the rows of an op's first input, or of what it makes; 0 for an op without values.
int64_t rows_of(const Graph& graph, const Op& op, const StepSizes& sizes);

// Returns the cost for the micro-batch of `sizes`. `mean_length` is the tokens that a token attends
// to on average, times two.
Cost cost_of(const Graph& graph, const Op& op, const StepSizes& sizes, double mean_length);

}  // namespace forge
