#pragma once
// Ops of a list that run once a step, over all that is trained. The list's owner runs them.
#include "core/graph/op_record.h"

namespace forge {

namespace ops {
// The norm, and what the update multiplies gradients with.
extern const OpRecord gradient_norm;
// The update of weights and optimizer state.
extern const OpRecord update;
}  // namespace ops

}  // namespace forge
