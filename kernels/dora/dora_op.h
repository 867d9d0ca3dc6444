#pragma once
// DoRA's columns in a list.
#include "core/graph/op_record.h"

namespace forge {

namespace ops {
// → ratio, 1 / norm: ‖W + scale · B A‖ of each column of y, side by side; modules as the linear's.
extern const OpRecord dora_ratio;
// x, ratio → x · ratio + bias.
extern const OpRecord dora;
// d y, x, ratio → d x, and into the magnitude's gradient; in the place of d y where nothing else
// reads it.
extern const OpRecord dora_backward;
}  // namespace ops

}  // namespace forge
