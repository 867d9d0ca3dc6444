#pragma once
// Lets the product at the end of a branch add the stream itself, for devices whose product may add
// another matrix than its result (kernels/device/gemm.h).
//
//   y = x Wᵀ;  h' = h + y      →  h' = h + x Wᵀ
//   h' = h + y, y', inverse    →  the same, and a norm of h'
//
// Thus y is neither written nor read, and the norm reads one stream instead of reading two and
// writing one.
//
// The sum then has one rounding where there were two. Excluded are products with a bias, which is
// in the result by then, with adapters beside them, and an fp32 stream. The device decides it, not
// the plan: every list of a GPU has it.
#include "core/graph/graph.h"

namespace forge {

// Rewrites a list. If adapters are to be folded, they already are. Additions are still ops of their
// own: fuse_additions comes later. Graph::producers no longer hold after the call.
void fold_residuals(Graph& graph);

}  // namespace forge
