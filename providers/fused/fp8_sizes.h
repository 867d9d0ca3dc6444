#pragma once
// The division of an op's workspace for rows in 8 bits, as far as a plan needs it. No torch.
#include <algorithm>

#include "core/graph/layout.h"
#include "kernels/fp8/fp8_args.h"

namespace forge {

inline bool any_fp8(const Graph& graph, const Op& op) {
  for (size_t i = 0; i < op.modules.size(); ++i)
    if (graph.module(op, i).fp8) return true;
  return false;
}

// Offsets in bytes from the beginning of the op's workspace, which holds the codes.
struct Fp8Space {
  int64_t scales = 0, product = 0, bytes = 0;
};

// Returns the space of a linear or linear_input_gradient. Its products share a workspace: they need
// one on a CPU, and on a GPU if they add to d x.
inline Fp8Space fp8_space(const Graph& graph, const Op& op, const StepSizes& sizes) {
  Fp8Space space;
  const bool backward = op.kind == OpKind::linear_input_gradient;
  if ((!backward && op.kind != OpKind::linear) || !any_fp8(graph, op)) return space;
  int64_t widest = 0, product = 0;
  for (size_t i = 0; i < op.modules.size(); ++i) {
    const ModuleUse& module = graph.module(op, i);
    if (!module.fp8) continue;
    ScaledProduct args{.type = sizes.compute_bytes == 4 ? Element::f32 : Element::bf16, .m = sizes.tokens};
    args.n = backward ? module.in : module.out, args.k = backward ? module.out : module.in;
    args.add = backward && (op.attributes.accumulate || i > 0);
    widest = std::max(widest, args.k);
    product = std::max(product, sizes.gpu ? scaled_product_gpu_workspace(args) : scaled_product_cpu_workspace(args));
  }
  const auto behind = [&](int64_t bytes) { return space.bytes = (space.bytes + bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; };
  space.scales = behind(sizes.tokens * widest);
  space.product = behind(4 * sizes.tokens);
  behind(product);
  return space;
}

}  // namespace forge
