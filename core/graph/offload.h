#pragma once
// Values that wait for the backward in the host's memory: copied out while the next layer is computed, and back while the backward of
// the layer above is.
//
//   add+norm  …→ h, y, inverse
//   store     h                   begins the copy, on a stream of its own
//   …         the next layer
//   stored    h                   the compute stream waits for it; here its place in the arena is free
//
//   load      → h'                behind what the layer above was waiting for
//   …         the backward of the layer above
//   loaded    h'
//   …         the backward that reads it
//
// Lifetimes follow from these ops as from any other (layout.h), so that the arena holds two of the values at a time.
#include "core/graph/graph.h"

namespace forge {

// Rewrites a list with its backward: of `values`, in the order in which they are made, all that the backward reads but the last, which
// it reads at once. Comes behind all other rewriting. Graph::producers no longer hold after it.
void offload(Graph& step, const std::vector<ValueId>& values);

}  // namespace forge
