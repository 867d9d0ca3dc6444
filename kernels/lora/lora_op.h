#pragma once
// Adapters beside their weights in a list.
#include "core/graph/op_record.h"
#include "kernels/call/call.h"
#include "kernels/lora/lora_args.h"

namespace forge {

namespace ops {
// d y, x, s[, d x] → [d x]: into the gradients of A and B, and added to d x.
extern const OpRecord adapter_gradient;
}  // namespace ops

namespace flops {
// Counts the backward of the op's adapters.
double adapters(const Graph& graph, const Op& op, double rows, double mean_length);
}  // namespace flops

// Return the workspace of an adapter on the call's device, and of all of an op's.
int64_t lora_workspace(const Call& c, const LoraGroup& group, bool backward);
int64_t adapters_workspace(const Call& c);

namespace bind {

// Calls visit(module, number among the adapted ones).
template <class Visit>
void each_adapter(const Call& c, Visit visit) {
  for (size_t i = 0, adapter = 0; i < c.op.modules.size(); ++i)
    if (c.use(i).rank > 0) visit(i, adapter++);
}

// Returns the mask of a module's adapter, for rows whose keys are `example` and `position` [rows].
LoraDropout dropout_of(const Call& c, const OpModule& m, const int64_t* example, const int32_t* position);

// Return the adapter of one of the op's modules, which is number `adapter` of the adapted ones. It
// is alone in its group: its dropout has a mask of its own, unlike that of modules that share x.
LoraForward lora_forward(const Call& c, size_t module, size_t adapter);
LoraBackward lora_backward(const Call& c, size_t module, size_t adapter);

}  // namespace bind
}  // namespace forge
