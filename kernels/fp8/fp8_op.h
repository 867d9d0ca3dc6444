#pragma once
// Products of a list with weights in E4M3.
#include "kernels/call/call.h"
#include "kernels/fp8/fp8_args.h"

namespace forge::bind {

bool any_fp8(const Graph& graph, const Op& op);

// Offsets in bytes from the beginning of the op's workspace, which holds the codes. Its products
// share one workspace.
struct Fp8Space {
  int64_t scales = 0, product = 0, bytes = 0;
};
// Returns the space of a linear or linear_input_gradient; no bytes if none of its weights is in
// E4M3.
Fp8Space fp8_space(const Call& c);
// Returns x or d y quantised into the workspace. `factors` multiply its columns; null: none.
QuantizeRows fp8_rows(const Call& c, const Part& x, const float* factors);
// Return the product of one of the op's modules with these rows. d x is added if the op adds to it,
// or if the module is not the first.
ScaledProduct fp8_linear(const Call& c, size_t module, const QuantizeRows& x);
ScaledProduct fp8_input_gradient(const Call& c, size_t module, const QuantizeRows& d_y,
                                 const uint8_t* transposed, const float* ones);

}  // namespace forge::bind
