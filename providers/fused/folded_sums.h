#pragma once
// The arguments of the kernel for thin products of folded adapters, as far as a plan needs them. No
// torch.
#include "core/graph/graph.h"
#include "kernels/lora/folded_space.h"

namespace forge {

// Returns the sizes alone. Args is AdapterSums or AdapterSumsGradient, for an op of that kind laid
// out for `sizes`.
template <class Args>
Args folded_sums(const Graph& graph, const Op& op, const StepSizes& sizes) {
  Args args{.type = sizes.compute_bytes == 4 ? Element::f32 : Element::bf16, .tokens = sizes.tokens, .planned = sizes.tokens};
  args.multiprocessors = sizes.multiprocessors;
  args.members = static_cast<int64_t>(op.modules.size());
  if constexpr (requires { args.width; }) args.width = graph.value(op.in[0]).width;
  for (size_t i = 0; i < op.modules.size() && i < kMaxFoldedMembers; ++i)
    args.member[i] = {.out = graph.module(op, i).out, .rank = graph.module(op, i).rank};
  return args;
}

}  // namespace forge
