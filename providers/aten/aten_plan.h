#pragma once
// The ops that ATen computes in a step's list, because the device has no kernel for them or the job
// asks for it, and the memory that they take beside the arena. No torch.
#include <string>

#include "core/graph/graph.h"
#include "core/plan/memory/memory.h"

namespace forge {

// Returns why ATen computes the op; empty where kernels do.
std::string aten_reason(const Graph& graph, const Op& op, const StepSizes& sizes);
// Returns the same for attention with these attributes; `sinks`: it has some.
std::string aten_attention_reason(const Attributes& of, bool sinks, const StepSizes& sizes);
// True if an op's experts have adapters that rescale their columns (DoRA). All of their gradients
// are one op's then, the adapter's.
bool rescaled_experts(const Graph& graph, const Op& op);
// True if ATen computes an op of the list.
bool asks_aten(const Graph& graph, const StepSizes& sizes);

// Returns the bytes that LibTorch allocates at most while the op runs.
int64_t aten_bytes(const Graph& graph, const Op& op, const StepSizes& sizes, const ActivationShape& shape);

}  // namespace forge
