#pragma once
// RMS norms in a list.
#include "core/graph/op_record.h"

namespace forge {

namespace ops {
// x → y, inverse: 1 / rms of each row, or of each head of it.
extern const OpRecord norm;
// a, b → a + b, y, inverse: both in one pass.
extern const OpRecord add_norm;
// d y, x, inverse[, d x] → d x[, y]: added to the given d x; writes its own without.
extern const OpRecord norm_backward;
}  // namespace ops

}  // namespace forge
