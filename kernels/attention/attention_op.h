#pragma once
// Attention in a list.
#include "core/graph/op_record.h"

namespace forge {

namespace ops {
// q, k, v → mixed, lse. Of a layer with sinks, modules[0] is a logit a head, which takes its share
// of the softmax and adds nothing; with a bias by position, that of each bucket of distances and
// head, added to the scores.
extern const OpRecord attention;
// q, k, v, mixed, lse, d mixed → d q, d k, d v, and into the gradient of the sinks.
extern const OpRecord attention_backward;
}  // namespace ops

}  // namespace forge
