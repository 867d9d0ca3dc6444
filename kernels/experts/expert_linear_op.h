#pragma once
// Linear layers of experts in a list: the products of all experts of an op are one group.
//
// The loop over experts reads itself where their rows end, so nothing waits on a CPU. 60 experts of
// 176, 4 a token, hidden 256, 4 layers, 1,024 tokens a micro-batch, fp32, two threads of a busy
// machine, in turns: LoRA of all linear layers has 1,180 to 1,490 tokens/s under fused and 660 to
// 730 under reference, with losses equal to 2e-9. Full fine-tuning, which the update decides, shows
// noise.
#include "core/graph/op_record.h"
#include "core/graph/recorder.h"
#include "kernels/experts/experts_op.h"

namespace forge {

namespace ops {
// rows, ends, order → y[, s]: each expert's rows by its own module, or by its part of the one
// module.
extern const OpRecord expert_linear;
// d y, ends[, d rows] → d rows.
extern const OpRecord expert_input_gradient;
// d y, rows, ends →, into the weights' gradients.
extern const OpRecord expert_weight_gradient;
// d y, rows, s, ends, order[, d rows] → [d rows], into the gradients of A and B.
extern const OpRecord expert_adapter_gradient;
}  // namespace ops

// Multiplies by modules "before" + expert + "after"; rows of experts → rows of experts.
ValueId expert_linear(Recorder& g, ValueId rows, const Routing& routing, const std::string& before, const std::string& after, int64_t out);
// A module that holds the matrices of all experts, its output features, and whether an expert has a
// bias and a matrix [out, in].
struct JoinedExperts {
  const char* module;
  int64_t out = 0;
  bool bias = false, out_first = false;
  LinearUse use = LinearUse::layer;
};
// Like expert_linear(), by one module that holds all experts.
ValueId joined_expert_linear(Recorder& g, ValueId rows, const Routing& routing,
                             const JoinedExperts& joined);

}  // namespace forge
