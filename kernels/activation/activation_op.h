#pragma once
// Activations in a list.
#include "core/graph/op_record.h"
#include "core/graph/recorder.h"

namespace forge {

namespace ops {
// x → f(x).
extern const OpRecord activation;
// d y, x → d x, in the place of x.
extern const OpRecord activation_backward;
}  // namespace ops

// `limit`: of clamp.
ValueId activation(Recorder& g, ValueId x, ActivationKind kind, double limit = 0);

}  // namespace forge
