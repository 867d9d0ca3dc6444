#include "kernels/delta_rule/delta_rule.h"

#include <ATen/ATen.h>

#include <cmath>

#include "kernels/delta_rule/delta_rule_tiles.h"

namespace forge {
namespace {

at::Tensor wide(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
}

// Returns heads first, [heads, tokens, dim].
at::Tensor heads_first(const at::Tensor& x, int64_t heads) {
  return wide(x).reshape({x.size(0), heads, -1}).transpose(0, 1);
}

at::Tensor normed(const at::Tensor& x) {
  return x * at::rsqrt(x.square().sum(-1, true) + static_cast<double>(kDeltaEps));
}

bool erases(const at::Tensor& skip) { return !skip.defined(); }

// A text's operands, [value heads, tokens, …].
struct Operands {
  at::Tensor q, k, v, g, beta, skip;

  Operands(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& gates,
           const DeltaHeads& heads, const at::Tensor& skip) {
    const int64_t shared = heads.value_heads / heads.key_heads;
    const at::Tensor of_q = heads_first(q, heads.key_heads), of_k = heads_first(k, heads.key_heads);
    this->q = (erases(skip) ? normed(of_q) / std::sqrt(static_cast<double>(heads.key_dim)) : of_q)
                  .repeat_interleave(shared, 0);
    this->k = (erases(skip) ? normed(of_k) : of_k).repeat_interleave(shared, 0);
    if (!erases(skip)) this->skip = wide(skip).unsqueeze(1);
    this->v = heads_first(v, heads.value_heads);
    g = wide(gates).narrow(1, 0, heads.value_heads).t();
    beta = wide(gates).narrow(1, heads.value_heads, heads.value_heads).t();
  }
};

// Returns y of a chunk, and makes of `state` that after it.
at::Tensor chunk(const Operands& of, int64_t first, int64_t count, at::Tensor& state) {
  const auto part = [&](const at::Tensor& x) { return x.narrow(1, first, count); };
  const at::Tensor q = part(of.q), k = part(of.k), beta = part(of.beta).unsqueeze(2),
                   sum = part(of.g).to(at::kDouble).cumsum(1);  // may be thousands; its differences count
  const auto powers = [&](const at::Tensor& x) { return x.exp().to(of.v.scalar_type()); };
  const at::Tensor since = powers(sum).unsqueeze(2),
                   left = powers(sum.narrow(1, count - 1, 1) - sum).unsqueeze(2);
  const at::Tensor later = at::ones({count, count}, sum.options().dtype(at::kBool)).triu(1);
  const at::Tensor decay =
      powers((sum.unsqueeze(2) - sum.unsqueeze(1)).masked_fill(later, -HUGE_VAL));
  at::Tensor x;
  if (erases(of.skip)) {
    const at::Tensor system = at::matmul(k * beta, k.transpose(1, 2)) * decay;
    x = at::linalg_solve_triangular(
        system, beta * (part(of.v) - since * at::matmul(k, state)), /*upper=*/false, /*left=*/true,
        /*unitriangular=*/true);
  } else {
    x = beta * part(of.v);
  }
  at::Tensor y =
      since * at::matmul(q, state) + at::matmul(at::matmul(q, k.transpose(1, 2)) * decay, x);
  if (!erases(of.skip)) y = y + of.skip.unsqueeze(2) * part(of.v);
  state = state * since.narrow(1, count - 1, 1) + at::matmul((k * left).transpose(1, 2), x);
  return y;
}

at::Tensor rows_of(const at::Tensor& y, const at::Tensor& v) {
  return y.transpose(0, 1).flatten(1).to(v.scalar_type());
}

}  // namespace

at::Tensor delta_gates(const at::Tensor& b, const at::Tensor& a, const at::Tensor& a_log,
                       const at::Tensor& dt_bias) {
  const at::Tensor decay = -wide(a_log).exp() * at::softplus(wide(a) + wide(dt_bias));
  return at::cat({decay, at::sigmoid(wide(b))}, 1);
}

at::Tensor step_gates(const at::Tensor& a, const at::Tensor& a_log, const at::Tensor& dt_bias, double least_step) {
  const at::Tensor step = at::softplus(wide(a) + wide(dt_bias)).clamp_min(least_step);
  return at::cat({-wide(a_log).exp() * step, step}, 1);
}

at::Tensor delta_rule(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                      const at::Tensor& gates, const DeltaHeads& heads,
                      const std::vector<int32_t>& cu_seqlens, std::vector<at::Tensor>* states, const at::Tensor& skip) {
  std::vector<at::Tensor> texts;
  for (size_t i = 0; i + 1 < cu_seqlens.size(); ++i) {
    const int64_t first = cu_seqlens[i], count = cu_seqlens[i + 1] - first;
    const auto part = [&](const at::Tensor& x) { return x.narrow(0, first, count); };
    const Operands of(part(q), part(k), part(v), part(gates), heads, skip);
    at::Tensor state =
        at::zeros({heads.value_heads, heads.key_dim, heads.value_dim}, of.v.options());
    std::vector<at::Tensor> chunks;
    for (int64_t at = 0; at < count; at += kDeltaChunk)
      chunks.push_back(chunk(of, at, std::min(kDeltaChunk, count - at), state));
    if (count > 0) texts.push_back(rows_of(at::cat(chunks, 1), v));
    if (states) states->push_back(state);
  }
  return texts.empty() ? at::zeros_like(v) : at::cat(texts);
}

at::Tensor recurrent_delta_rule(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const at::Tensor& gates, const DeltaHeads& heads,
                                at::Tensor& state, const at::Tensor& skip) {
  const Operands of(q, k, v, gates, heads, skip);
  std::vector<at::Tensor> rows;
  for (int64_t t = 0; t < q.size(0); ++t) {
    const auto now = [&](const at::Tensor& x) { return x.select(1, t); };
    const at::Tensor key = now(of.k).unsqueeze(2);
    state = state * now(of.g).exp().unsqueeze(1).unsqueeze(2);
    const at::Tensor value = erases(skip) ? now(of.v) - (state * key).sum(1) : now(of.v);
    state = state + key * (value * now(of.beta).unsqueeze(1)).unsqueeze(1);
    const at::Tensor y = (state * now(of.q).unsqueeze(2)).sum(1);
    rows.push_back(erases(skip) ? y : y + of.skip * now(of.v));
  }
  return rows_of(at::stack(rows, 1), v);
}

}  // namespace forge
