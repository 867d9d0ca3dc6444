#pragma once
// Turns a forward list into a whole step: adds the gradients in reverse order, and what is computed
// again for them.
//
// A value that the backward reads is kept from the forward if `keep` says so; otherwise the ops
// that made it are repeated right before its first reader, back to values that are kept. Gradients
// are made only where something below is trained.
#include <set>

#include "core/model/graph/graph.h"

namespace forge {

// Forward values that stay in memory until the backward has read them.
using KeptValues = std::set<ValueId>;

// Appends the backward list. `forward` ends with the head.
Graph with_backward(Graph forward, const KeptValues& kept);

// Moves norms and gated activations that are made again for the gradients of weights alone into
// their own backward, which reads the same values. Those gradients are then made after it.
// Graph::producers no longer hold after the call.
void repeat_in_backward(Graph& graph);

// Joins an addition and the norm that follows it into one pass over memory. Graph::producers no
// longer hold after the call.
void fuse_additions(Graph& graph);

}  // namespace forge
