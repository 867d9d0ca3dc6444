#pragma once
// Joins gated activations with the folded adapters (fold_adapters.h) beside them, which would read
// again what the activation has already read: for devices that have a kernel for it
// (kernels/lora/gated_args.h).
//
//   y = f(gate) · up;  s of the adapter that reads y                                      → glu+adapter sums
//   d gate, d up, y again;  d A of the adapter that reads y;  d s, d B of those of gate, up → glu+adapters backward
//
// so that y is neither stored nor read in the backward, and d gate and d up are not read but by
// their product.
//
// Gate, up and their gradients are the widest values of a layer. The gain is counted in bytes
// (docs/gpu-backlog.md), not measured. A device without the kernel runs the ops that the folded one
// was made of, with y in the place of d y.
#include "core/graph/graph.h"

namespace forge {

// Rewrites a list whose adapters are folded. Graph::producers no longer hold after it.
void fold_gates(Graph& graph);

}  // namespace forge
