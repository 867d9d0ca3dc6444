#pragma once
// Which values a step keeps for its backward, and which it computes again.
#include "core/config/job.h"
#include "core/graph/backward.h"

namespace forge {

// What costs a pass over memory and no product (norms, gated activations) is always computed again. Beyond that
//   none       keeps what products and attention made,
//   selective  computes the inputs of the gated activation again: the widest values of a layer, and no attention,
//   full       keeps a layer's input alone, and what only its own gradient would need to be computed again.
// Around the layers everything is kept.
KeptValues kept_values(const Graph& forward, Checkpointing policy);

}  // namespace forge
