#pragma once
// Branches that end in a product and are added to the stream: the product adds the stream itself, for devices whose product may add
// another matrix than its result (kernels/device/gemm.h).
//
//   y = x Wᵀ;  h' = h + y      →  h' = h + x Wᵀ
//   h' = h + y, y', inverse    →  the same, and a norm of h'
//
// so that y is neither written nor read, and the norm reads one stream instead of reading two and writing one.
#include "core/graph/graph.h"

namespace forge {

// Rewrites a list whose adapters, if they are to be folded, are so already, and whose additions stand by themselves (fuse_additions comes
// behind). Graph::producers no longer hold after it.
void fold_residuals(Graph& graph);

}  // namespace forge
