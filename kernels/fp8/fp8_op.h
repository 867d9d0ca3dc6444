#pragma once
// Products of a list with weights in E4M3.
#include "kernels/call/run.h"
#include "kernels/fp8/fp8_args.h"

namespace forge {
namespace bind {

inline bool any_fp8(const Graph& graph, const Op& op) { return any_module(graph, op, &ModuleUse::fp8); }

// Offsets in bytes from the beginning of the op's workspace, which holds the codes. Its products
// share one workspace.
struct Fp8Space {
  int64_t scales = 0, product = 0, bytes = 0;
};
// Returns the space of a linear or linear_input_gradient; no bytes if none of its weights is in
// E4M3.
Fp8Space fp8_space(const Call& c);

}  // namespace bind

namespace fused {

// Quantises x to E4M3 into the workspace if the op has weights in E4M3.
QuantizeRows fp8_rows(const OpRun& r, const Part& x);
// Computes a module's columns of y = x Wᵀ + bias; `bias` may be null.
void fp8_product(const OpRun& r, size_t module, const QuantizeRows& x, const void* bias);
// Computes d x of a module whose weight is in E4M3. It is added if the op adds to it, or if the
// module is not the first.
void fp8_input_gradient(const OpRun& r, size_t module);

}  // namespace fused
}  // namespace forge
