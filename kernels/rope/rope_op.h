#pragma once
// Rotations of q and k in a list.
#include "core/graph/op_record.h"

namespace forge {

namespace ops {
// x, y → x, y: rotated in place; y may be absent.
extern const OpRecord rope;
// d x, d y → d x, d y.
extern const OpRecord rope_backward;
}  // namespace ops

}  // namespace forge
