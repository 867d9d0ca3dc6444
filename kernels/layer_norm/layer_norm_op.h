#pragma once
// Layer norms in a list.
#include "core/graph/op_record.h"

namespace forge {

namespace ops {
// x → y, statistics: mean and 1 / deviation of each row.
extern const OpRecord layer_norm;
// d y, x, statistics[, d x] → d x.
extern const OpRecord layer_norm_backward;
}  // namespace ops

}  // namespace forge
