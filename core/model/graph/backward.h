#pragma once
// Turns a forward list into a whole step, and rewrites what is repeated in it.
#include "core/graph/gradients.h"

namespace forge {

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
