#pragma once
// The end of a list: logits and what objectives take from them. The list's owner runs it.
#include "core/graph/op_record.h"

namespace forge {

namespace ops {
// rows → d rows: logits, objective and its gradient; modules[0] is the head.
extern const OpRecord head;
// rows →: logits and the log-probabilities of targets.
extern const OpRecord evaluate;
}  // namespace ops

}  // namespace forge
