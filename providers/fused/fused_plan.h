#pragma once
// What the plan must know of the fused provider, without torch: the engine allocates the same arena from the same functions.
#include "core/graph/layout.h"
#include "core/plan/memory/memory.h"
#include "core/plan/provider.h"

namespace forge {

std::vector<std::string> fused_faults(const ActivationShape& shape);
Choice<Attention> fused_attention(const ActivationShape& shape, const Attributes& of);
std::vector<MemoryLine> fused_activation_lines(const ActivationShape& shape);

std::vector<MemoryLine> fused_decoding_lines(const ActivationShape& shape, const DecodingShape& decoding);

// nf4's, fp4's, the dynamic map's and E4M3's numbers, which the engine holds where weights are in blocks.
constexpr int64_t kCodeBookBytes = 4 * (16 + 16 + 256 + 256);

// Where an op over experts' rows with adapters keeps things in its workspace, in bytes from its beginning: the keys of its rows' dropout,
// and B and d B of one expert of a tensor in which the experts' columns take turns.
struct ExpertSpace {
  int64_t examples = 0, positions = 0, b = 0, d_b = 0;
  int64_t adapter = 0;  // what kernels/lora needs
  int64_t bytes = 0;
};
ExpertSpace expert_space(const Graph& graph, const Op& op, const StepSizes& sizes);

// The bytes that the kernels of an op need beside its values.
int64_t fused_workspace(const Graph& graph, const Op& op, const StepSizes& sizes);

// Whether the host looks at results in the middle of a list: which experts rows reach.
bool asks_host(const Graph& graph);

// Whether weights that are not held in the compute type are decoded while the product before them runs: on a GPU, where the list
// foretells their order.
bool decodes_ahead(const Graph& graph, bool gpu);

}  // namespace forge
