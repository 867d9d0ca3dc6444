#pragma once
// Gated activations joined with the folded adapters beside them in a list
// (core/model/graph/fold_gates.h).
#include "core/graph/op_record.h"

namespace forge {

namespace ops {
// gate, up → f(gate) · up, s[, s once more] of the adapter that reads it.
extern const OpRecord glu_sums;
// d y, gate, up[, d s][, s] → d gate, d up[, d s of those that made them], in the places of gate
// and up, and into the gradient of A of what reads y and of B of what made gate and up; d y is used
// up.
extern const OpRecord glu_adapters_backward;
}  // namespace ops

// Highest ranks of an adapter that is joined: kernels hold so many in registers.
constexpr int64_t kMostGatedSums = 64, kMostGatedGradients = 32;

// Modules of a glu_adapters_backward: first the one that reads y, last the two that made gate and
// up.
struct GateModules {
  bool reader = false, makers = false;
};
inline GateModules gate_modules(const Op& op) { return {op.modules.size() % 2 == 1, op.modules.size() > 1}; }

// Returns the ops that a folded op was made of, in order, for devices without a kernel that does it
// at once. y takes the place of d y, which nothing reads afterwards.
std::vector<Op> gate_parts(const Op& folded);

}  // namespace forge
