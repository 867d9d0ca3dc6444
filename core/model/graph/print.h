#pragma once
// Prints a list to read: one line an op, and layers that are the same but for their number once.
//
//     3  linear   input_layernorm → q_proj+k_proj+v_proj [tokens, 960]   1.1 GFLOP   7.1 MiB   2.3 MiB
#include <string>

#include "core/graph/layout.h"

namespace forge {

// Prints number, op, what it reads and makes, FLOPs, bytes moved and, with a layout, the place of
// its first result in the arena. A name is that of its layer; `below` and `above` are those of the
// layers beside it. `mean_length`: tokens of a sequence.
std::string print(const Graph& graph, const StepSizes& sizes, double mean_length, const Layout* layout);

}  // namespace forge
