#include "kernels/delta_rule/delta_rule.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
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

// A chunk's operands, [value heads, tokens, …].
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
at::Tensor chunk(const Operands& of, at::Tensor& state) {
  const int64_t count = of.q.size(1);
  const at::Tensor &q = of.q, &k = of.k, beta = of.beta.unsqueeze(2),
                   sum = of.g.to(at::kDouble).cumsum(1);  // may be thousands; its differences count
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
        system, beta * (of.v - since * at::matmul(k, state)), /*upper=*/false, /*left=*/true,
        /*unitriangular=*/true);
  } else {
    x = beta * of.v;
  }
  at::Tensor y =
      since * at::matmul(q, state) + at::matmul(at::matmul(q, k.transpose(1, 2)) * decay, x);
  if (!erases(of.skip)) y = y + of.skip.unsqueeze(2) * of.v;
  state = state * since.narrow(1, count - 1, 1) + at::matmul((k * left).transpose(1, 2), x);
  return y;
}

at::Tensor rows_of(const at::Tensor& y, const at::Tensor& v) {
  return y.transpose(0, 1).flatten(1).to(v.scalar_type());
}

at::Tensor no_state(const at::Tensor& v, const DeltaHeads& heads) {
  return at::zeros({heads.value_heads, heads.key_dim, heads.value_dim}, wide(v.narrow(0, 0, 0)).options());
}

// The first token of a chunk, and how many it has.
struct Span {
  int64_t first = 0, count = 0;

  at::Tensor of(const at::Tensor& x) const { return x.narrow(0, first, count); }
};

// Returns the chunks of text number `text`.
std::vector<Span> chunks_of(const std::vector<int32_t>& cu_seqlens, size_t text) {
  std::vector<Span> spans;
  for (int64_t at = cu_seqlens[text], end = cu_seqlens[text + 1]; at < end; at += kDeltaChunk)
    spans.push_back({at, std::min(kDeltaChunk, end - at)});
  return spans;
}

// Computes the gradients of a text.
class TextGradients {
 public:
  TextGradients(const DeltaTensors& in, const at::Tensor& d_y, const DeltaHeads& heads, DeltaTensors& d)
      : in_(in), d_y_(d_y), heads_(heads), d_(d) {}

  void add(const std::vector<Span>& chunks) {
    std::vector<at::Tensor> before;  // the state before each chunk
    at::Tensor state = no_state(in_.v, heads_);
    for (const Span& span : chunks) {
      before.push_back(state);
      if (before.size() < chunks.size()) chunk(part(in_, span), state);
    }
    at::Tensor d_state = at::zeros_like(state);
    for (size_t i = chunks.size(); i-- > 0; before.pop_back()) pull(chunks[i], before.back(), d_state);
  }

 private:
  Operands part(const DeltaTensors& x, const Span& span) const {
    return {span.of(x.q), span.of(x.k), span.of(x.v), span.of(x.gates), heads_, x.skip};
  }

  // Makes of the gradient of the state after a chunk that of the one before it.
  void pull(const Span& span, const at::Tensor& before, at::Tensor& d_state) {
    const auto leaf = [](const at::Tensor& x) { return x.defined() ? x.detach().requires_grad_(true) : x; };
    std::vector<at::Tensor> leaves{leaf(span.of(in_.q)), leaf(span.of(in_.k)), leaf(span.of(in_.v)),
                                   leaf(span.of(in_.gates)), leaf(before)};
    if (in_.skip.defined()) leaves.push_back(leaf(in_.skip));
    at::Tensor y, state = leaves[4];
    {
      c10::AutoGradMode on(true);
      const Operands of{leaves[0], leaves[1], leaves[2], leaves[3], heads_, in_.skip.defined() ? leaves[5] : in_.skip};
      y = rows_of(chunk(of, state), in_.v);
    }
    const std::vector<at::Tensor> grads = torch::autograd::grad({y, state}, leaves, {span.of(d_y_), d_state});
    span.of(d_.q).copy_(grads[0]), span.of(d_.k).copy_(grads[1]), span.of(d_.v).copy_(grads[2]);
    span.of(d_.gates).copy_(grads[3]);
    d_state = grads[4];
    if (in_.skip.defined()) d_.skip.add_(grads[5]);
  }

  const DeltaTensors& in_;
  const at::Tensor& d_y_;
  const DeltaHeads& heads_;
  DeltaTensors& d_;
};

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
  std::vector<at::Tensor> chunks;
  for (size_t i = 0; i + 1 < cu_seqlens.size(); ++i) {
    at::Tensor state = no_state(v, heads);
    for (const Span& span : chunks_of(cu_seqlens, i))
      chunks.push_back(rows_of(chunk({span.of(q), span.of(k), span.of(v), span.of(gates), heads, skip}, state), v));
    if (states) states->push_back(state);
  }
  return chunks.empty() ? at::zeros_like(v) : at::cat(chunks);
}

void delta_rule_gradients(const DeltaTensors& in, const at::Tensor& d_y, const DeltaHeads& heads,
                          const std::vector<int32_t>& cu_seqlens, DeltaTensors& d) {
  c10::NoGradGuard no_grad;
  TextGradients gradients(in, d_y, heads, d);
  for (size_t i = 0; i + 1 < cu_seqlens.size(); ++i) gradients.add(chunks_of(cu_seqlens, i));
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
