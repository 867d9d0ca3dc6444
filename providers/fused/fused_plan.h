#pragma once
// What the plan must know of the fused provider, without torch: the engine allocates the same arena from the same functions.
#include "core/graph/layout.h"
#include "core/plan/memory.h"
#include "core/plan/provider.h"

namespace forge {

std::vector<std::string> fused_faults(const ActivationShape& shape);
Choice<Attention> fused_attention(const ActivationShape& shape, const Attributes& of);
std::vector<MemoryLine> fused_activation_lines(const ActivationShape& shape);

std::vector<MemoryLine> fused_decoding_lines(const ActivationShape& shape, const DecodingShape& decoding);

// nf4's, fp4's and the dynamic map's numbers, which the engine holds where weights are in blocks.
constexpr int64_t kCodeBookBytes = 4 * (16 + 16 + 256);

// The bytes that the kernels of an op need beside its values.
int64_t fused_workspace(const Graph& graph, const Op& op, const StepSizes& sizes);

}  // namespace forge
