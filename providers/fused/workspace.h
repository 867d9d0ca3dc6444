#pragma once
// Bytes of the arena's workspace for each op, from the arguments that the engine gives its kernels.
// No torch.
#include "providers/fused/call.h"

namespace forge {

struct LoraGroup;

// Returns the bytes that the kernels of an op need besides its values.
int64_t fused_workspace(const Graph& graph, const Op& op, const StepSizes& sizes);

// Returns those of an adapter on the call's device.
int64_t lora_workspace(const Call& c, const LoraGroup& group, bool backward);

}  // namespace forge
