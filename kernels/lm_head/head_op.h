#pragma once
// The end of a list: logits and what objectives take from them. The list's owner runs it.
#include "core/graph/op_record.h"
#include "core/graph/recorder.h"
#include "kernels/lm_head/lm_head_args.h"

namespace forge {

namespace ops {
// rows → d rows: logits, objective and its gradient; modules[0] is the head.
extern const OpRecord head;
// rows →: logits and the log-probabilities of targets.
extern const OpRecord evaluate;
}  // namespace ops

// Ends a step: makes what objectives take from the head, with the gradient of its input; or, for
// an evaluation, without. `bias`: the module has a bias, which only a head with logits computes.
void head(Recorder& g, ValueId rows, const std::string& module, int64_t vocabulary, double softcap, bool fused, bool training,
          bool bias = false);

// Returns the arguments of a head without logits. Its owner adds the losses, and the gradient of a
// trained weight.
LmHead head_args(const Call& call);

}  // namespace forge
