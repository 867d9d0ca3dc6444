#include "providers/aten/cached_states.h"

#include <ATen/ATen.h>

#include "kernels/delta_rule/delta_rule.h"
#include "kernels/short_conv/short_conv.h"
#include "kernels/short_conv/short_conv_op.h"
#include "providers/aten/aten_ops.h"

namespace forge {

bool CachedStates::reads(const Op& op) {
  return op.kind == &ops::short_conv || op.kind == &ops::delta_rule || op.kind == &ops::state_space;
}

at::Tensor CachedStates::value(const StepMemory& m, ValueId id, bool writes) const {
  m.touch(device_, id, writes);
  return tensor_of(m, id, model_.device);
}

void CachedStates::run(const StepMemory& m, const Op& op, const std::vector<NewTokens>& tokens,
                       const BatchTensors& batch, bool begins) const {
  op.kind == &ops::short_conv ? convolve(m, op, tokens, batch, begins)
                              : mix(m, op, tokens, batch, begins);
}

void CachedStates::convolve(const StepMemory& m, const Op& op, const std::vector<NewTokens>& tokens,
                            const BatchTensors& batch, bool begins) const {
  const BoundModule& module = modules_[static_cast<size_t>(op.modules[0])];
  const at::Tensor x = value(m, op.in[0], false),
                   bias = module.vector_bias ? *module.vector_bias : at::Tensor();
  std::vector<at::Tensor> before;
  for (const NewTokens& t : tokens) {
    const at::Tensor columns = states_.columns(t.sequence, op.layer);
    before.push_back(begins ? at::zeros_like(columns) : columns);
  }
  value(m, op.out[0], true)
      .copy_(short_conv(x, *module.vector, bias, op.attributes.silu, batch.cu_seqlens, &before));
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int64_t first = batch.cu_seqlens[i], count = batch.cu_seqlens[i + 1] - first;
    const at::Tensor rows = at::cat({before[i], x.narrow(0, first, count)});
    states_.columns(tokens[i].sequence, op.layer)
        .copy_(rows.narrow(0, count, rows.size(0) - count));
  }
}

void CachedStates::mix(const StepMemory& m, const Op& op, const std::vector<NewTokens>& tokens,
                       const BatchTensors& batch, bool begins) const {
  const DeltaHeads heads = delta_heads_of(op.attributes);
  const at::Tensor q = value(m, op.in[0], false), k = value(m, op.in[1], false),
                   v = value(m, op.in[2], false), gates = value(m, op.in[3], false),
                   y = value(m, op.out[0], true);
  std::vector<at::Tensor> after;
  const at::Tensor skip = op.kind == &ops::state_space ? *modules_[static_cast<size_t>(op.modules[0])].vector : at::Tensor();
  if (begins) y.copy_(delta_rule(q, k, v, gates, heads, batch.cu_seqlens, &after, skip));
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int64_t first = batch.cu_seqlens[i], count = batch.cu_seqlens[i + 1] - first;
    const auto part = [&](const at::Tensor& x) { return x.narrow(0, first, count); };
    at::Tensor state = states_.matrices(tokens[i].sequence, op.layer);
    if (begins) {
      state.copy_(after[i]);
      continue;
    }
    at::Tensor now = state;
    part(y).copy_(recurrent_delta_rule(part(q), part(k), part(v), part(gates), heads, now, skip));
    state.copy_(now);
  }
}

}  // namespace forge
