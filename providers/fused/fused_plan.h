#pragma once
// The fused provider's memory, without torch. The engine allocates the same arena by the same
// functions.
#include "core/graph/layout.h"
#include "core/plan/memory/memory.h"
#include "core/plan/stages/provider.h"

namespace forge {

std::vector<std::string> fused_faults(const ActivationShape& shape);
Choice<Attention> fused_attention(const ActivationShape& shape, const Attributes& of);
std::vector<MemoryLine> fused_activation_lines(const ActivationShape& shape);
// Return the same for a run whose every op runs in ATen.
Choice<Attention> aten_attention(const ActivationShape& shape, const Attributes& of);
std::vector<MemoryLine> aten_activation_lines(const ActivationShape& shape);

// Returns the memory of a forward list that ATen runs op by op without an arena, as the gate of fp8
// does.
std::vector<MemoryLine> op_by_op_lines(const ActivationShape& shape);
std::vector<MemoryLine> aten_decoding_lines(const ActivationShape& shape, const DecodingShape& decoding);
std::vector<MemoryLine> fused_decoding_lines(const ActivationShape& shape, const DecodingShape& decoding);

// Returns the bytes of the arena that the kernels of an op need beside its values; 0 if ATen
// computes it.
int64_t fused_workspace(const Graph& graph, const Op& op, const StepSizes& sizes);

// True if the host reads results in the middle of a list: the numbers of experts' rows.
bool asks_host(const Graph& graph);

// True if weights that are not held in the compute type are decoded while the product before them
// runs: on a GPU, if the list tells their order in advance.
bool decodes_ahead(const Graph& graph, bool gpu);

}  // namespace forge
