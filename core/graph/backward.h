#pragma once
// From a forward list to a whole step: gradients in the reverse order, and what is computed again for them.
//
// A value that the backward reads is kept from the forward if `keep` says so; otherwise the ops that made it are repeated right
// before its first reader, back to values that are kept. Gradients are made only where something below is trained.
#include <set>

#include "core/graph/graph.h"

namespace forge {

// Forward values that stay in memory until the backward has read them.
using KeptValues = std::set<ValueId>;

// Appends the backward list. `forward` ends with the head.
Graph with_backward(Graph forward, const KeptValues& kept);

// Norms and gated activations that are made again for the gradients of weights alone come out of their own backward, which reads the
// same values: those gradients are then made behind it. Graph::producers no longer hold after it.
void repeat_in_backward(Graph& graph);

// An addition and the norm that follows it, as one pass over memory. Graph::producers no longer hold after it.
void fuse_additions(Graph& graph);

}  // namespace forge
