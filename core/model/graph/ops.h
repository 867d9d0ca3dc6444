#pragma once
// Table of ops: the name of each, the types and rows of its values, and its cost.
#include "core/model/graph/graph.h"

namespace forge {

struct Cost {
  double flops = 0, bytes = 0;  // bytes that must at least be moved between memory and the processor
};

const char* name_of(OpKind kind);
// True if most of the op's time goes into products of matrices.
bool is_product(OpKind kind);
// True if kernels take the types of the op's values: the stream's may be fp32 where all others are
// of the compute type.
bool types_agree(const Graph& graph, const Op& op);

// Returns the rows of an op's first input, or of what it makes; 0 for an op without values.
int64_t rows_of(const Graph& graph, const Op& op, const StepSizes& sizes);

// Returns the cost for the micro-batch of `sizes`. `mean_length` is the tokens that a token attends
// to on average, times two.
Cost cost_of(const Graph& graph, const Op& op, const StepSizes& sizes, double mean_length);

}  // namespace forge
