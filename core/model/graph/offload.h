#pragma once
// Moves values that wait for the backward to the host's memory: copies them out while the next
// layer is computed, and back during the backward of the layer above.
//
//   add+norm  …→ h, y, inverse
//   store     h                   begins the copy, on a stream of its own
//   …         the next layer
//   stored    h                   the compute stream waits for it; here its place in the arena is free
//
//   load      → h'                after what the layer above was waiting for
//   …         the backward of the layer above
//   loaded    h'
//   …         the backward that reads it
//
// Lifetimes follow from these ops as from any other (layout.h), so that the arena holds two of the
// values at a time.
//
// Only inputs of layers move. With everything computed again they are all that is kept, as in
// Unsloth's checkpoints; q, k, v and the inside of the MLP would be ten times the bytes, more than
// PCIe carries beside a layer of an 8B model. Leaving small values out would save nothing: the
// question is whether the job fits.
#include "core/graph/graph.h"

namespace forge {

// Rewrites a list with its backward. Of `values`, in the order in which they are made, it moves all
// that the backward reads except the last, which the backward reads at once, and those that it
// reads before a later one (layers that share keys). It must come after all other rewriting.
// Graph::producers no longer hold after the call.
void offload(Graph& step, const std::vector<ValueId>& values);

}  // namespace forge
