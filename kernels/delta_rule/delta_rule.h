#pragma once
// The gated delta rule on tensors (delta_rule_args.h has the formulas), differentiable.
#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/delta_rule/delta_rule_op.h"

namespace forge {

// b, a [tokens, heads], a_log, dt_bias [heads] → fp32 [tokens, 2 heads]; fp64 stays.
at::Tensor delta_gates(const at::Tensor& b, const at::Tensor& a, const at::Tensor& a_log,
                       const at::Tensor& dt_bias);

// a [tokens, heads], a_log, dt_bias [heads] → fp32 [tokens, 2 heads], of a state space.
at::Tensor step_gates(const at::Tensor& a, const at::Tensor& a_log, const at::Tensor& dt_bias, double least_step);

// q, k, v, gates → y [tokens, value_heads · value_dim] in v's type, by chunks of 64 tokens of each
// text. `skip` [value_heads] makes it a state space. `states`, if given, gets the matrices after
// each text: [value_heads, key_dim, value_dim].
at::Tensor delta_rule(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                      const at::Tensor& gates, const DeltaHeads& heads,
                      const std::vector<int32_t>& cu_seqlens,
                      std::vector<at::Tensor>* states = nullptr,
                      const at::Tensor& skip = {});

// The operands of the rule, or their gradients. `skip` is undefined but for a state space.
struct DeltaTensors {
  at::Tensor q, k, v, gates, skip;
};

// Writes the gradients of `in`, of the skip in addition to what is there. Chunks are computed again
// from each text's last one to its first, so that beside the states between them the values of one
// chunk are held.
void delta_rule_gradients(const DeltaTensors& in, const at::Tensor& d_y, const DeltaHeads& heads,
                          const std::vector<int32_t>& cu_seqlens, DeltaTensors& d);

// Computes a text token by token, which goes on from `state`, and leaves it as it is after the last
// token.
at::Tensor recurrent_delta_rule(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const at::Tensor& gates, const DeltaHeads& heads,
                                at::Tensor& state, const at::Tensor& skip = {});

}  // namespace forge
