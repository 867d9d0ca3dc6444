#pragma once
// The arguments of the kernel for gated activations with the adapters beside them, as far as a plan
// needs them. No torch.
#include "core/graph/fold_gates.h"
#include "kernels/lora/gated_space.h"

namespace forge {

static_assert(kMostGatedSums == kThinRanks && kMostGatedGradients == kMostGatedRanks);

// Returns the sizes alone, for a glu_sums or a glu_adapters_backward laid out for `sizes`.
template <class Args>
Args gated_sizes(const Graph& graph, const Op& op, const StepSizes& sizes) {
  Args args{.type = sizes.compute_bytes == 4 ? Element::f32 : Element::bf16, .tokens = sizes.tokens, .planned = sizes.tokens};
  args.multiprocessors = sizes.multiprocessors;
  args.width = graph.value(op.in[1]).width;
  if constexpr (requires { args.side; }) {
    const GateModules gate = gate_modules(op);
    if (gate.reader) args.rank = graph.module(op).rank;
    for (size_t i = 0; gate.makers && i < 2; ++i) args.side[i].rank = graph.module(op, op.modules.size() - 2 + i).rank;
  } else {
    args.rank = graph.module(op).rank;
  }
  return args;
}

}  // namespace forge
