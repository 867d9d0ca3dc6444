#include "tests/kernels/attention_stand_ins.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

#include "kernels/attention/attention_choice.h"
#include "kernels/attention/attention_torch.h"
#include "kernels/attention/attention_turns.h"

namespace forge::kernel_test {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

void check_operand(const at::Tensor& x, const char* name) {
  const int64_t bytes = x.element_size();
  TORCH_CHECK(x.stride(-1) == 1, name, ": the last dimension must be contiguous");
  TORCH_CHECK(reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0, name, " is misaligned");
  TORCH_CHECK(x.stride(-3) * bytes % 16 == 0 && x.stride(-2) * bytes % 16 == 0, name, ": misaligned rows");
}

void check_offsets(const at::Tensor& cu) {
  TORCH_CHECK(cu.scalar_type() == at::kInt && cu.dim() == 1 && cu.is_contiguous(), "cu_seqlens");
}

// One head of one sequence in float64. [length, d]
struct Head {
  at::Tensor q, k, v;
  at::Tensor scores(double scale) const {
    at::Tensor hidden = at::ones({q.size(0), k.size(0)}, at::kBool).triu(1);
    return (q.mm(k.t()) * scale).masked_fill(hidden, -HUGE_VAL);
  }
};

// Visits every head of every sequence: visit(sequence, head, begin, length, Head). q is [tokens,
// heads, d]; k and v may have fewer heads.
template <class Visit>
void for_each_head(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& cu,
                   int64_t longest, Visit visit) {
  const int32_t* offsets = cu.const_data_ptr<int32_t>();
  const int64_t group = q.size(1) / k.size(1);
  TORCH_CHECK(offsets[cu.size(0) - 1] == q.size(0), "cu_seqlens ends elsewhere");
  for (int64_t s = 0; s + 1 < cu.size(0); ++s) {
    const int64_t begin = offsets[s], length = offsets[s + 1] - begin;
    TORCH_CHECK(length <= longest, "a sequence is longer than the longest");
    for (int64_t h = 0; h < q.size(1) && length > 0; ++h) {
      auto part = [&](const at::Tensor& x, int64_t head) {
        return x.select(1, head).narrow(0, begin, length).to(at::kDouble);
      };
      visit(s, h, begin, length, Head{part(q, h), part(k, h / group), part(v, h / group)});
    }
  }
}

struct Grads {
  at::Tensor q, k, v;  // float64
};

// Returns the gradients from the forward's out and lse, like the kernels do. lse_of(sequence, head,
// begin, length) → [length]
template <class LseOf>
Grads gradients_of(const at::Tensor& d_out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                   const at::Tensor& out, const at::Tensor& cu, int64_t longest, double scale, LseOf lse_of) {
  Grads grads{at::zeros(q.sizes(), at::kDouble), at::zeros(k.sizes(), at::kDouble),
              at::zeros(v.sizes(), at::kDouble)};
  const int64_t group = q.size(1) / k.size(1);
  for_each_head(
      q, k, v, cu, longest, [&](int64_t s, int64_t h, int64_t begin, int64_t length, const Head& in) {
        auto part = [&](const at::Tensor& x, int64_t head) {
          return x.select(1, head).narrow(0, begin, length);
        };
        at::Tensor d = part(d_out, h).to(at::kDouble), o = part(out, h).to(at::kDouble);
        at::Tensor p = (in.scores(scale) - lse_of(s, h, begin, length).to(at::kDouble).unsqueeze(1)).exp();
        at::Tensor d_s = p * (d.mm(in.v.t()) - (d * o).sum(1, true)) * scale;
        part(grads.q, h).add_(d_s.mm(in.k));
        part(grads.k, h / group).add_(d_s.t().mm(in.q));
        part(grads.v, h / group).add_(p.t().mm(d));
      });
  return grads;
}

// ---- efficient: [1, tokens, heads, d], lse [sequences, heads, longest rounded up to 32]

void check_efficient(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const OptionalTensor& bias, const OptionalTensor& cu_q, const OptionalTensor& cu_k,
                     int64_t longest, double dropout, int64_t mask) {
  TORCH_CHECK(q.dim() == 4 && q.size(0) == 1 && q.sizes() == k.sizes() && q.sizes() == v.sizes(),
              "shapes of q, k and v: there are no grouped queries");
  TORCH_CHECK(!bias && cu_q && cu_k && at::equal(*cu_q, *cu_k), "packed self-attention");
  TORCH_CHECK(longest > 0 && longest <= q.size(1), "the longest sequence");
  TORCH_CHECK(dropout == 0 && mask == 1, "causal from the top left, without dropout");
  for (const at::Tensor& x : {q, k, v}) check_operand(x, "an operand of efficient attention");
  check_offsets(*cu_q);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt> efficient_forward(
    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& bias,
    const OptionalTensor& cu_q, const OptionalTensor& cu_k, std::optional<int64_t> max_q,
    std::optional<int64_t> max_k, double dropout, int64_t mask, bool compute_lse, std::optional<double> scale,
    const OptionalTensor& seqlen_k, std::optional<int64_t> window) {
  TORCH_CHECK(max_q && max_k && scale && !seqlen_k && !window, "nothing else is asked for");
  check_efficient(q, k, v, bias, cu_q, cu_k, *max_q, dropout, mask);
  const int64_t sequences = cu_q->size(0) - 1, padded = (*max_q + 31) / 32 * 32;
  at::Tensor out = at::empty_like(q, at::MemoryFormat::Contiguous);
  // Rows that belong to no query have undefined content; the kernel's own padding is infinite.
  at::Tensor lse = at::full({sequences, q.size(2), compute_lse ? padded : 0},
                            std::numeric_limits<float>::quiet_NaN(), at::kFloat);
  for_each_head(q[0], k[0], v[0], *cu_q, *max_q,
                [&](int64_t s, int64_t h, int64_t begin, int64_t length, const Head& in) {
                  at::Tensor scores = in.scores(*scale);
                  out[0].select(1, h).narrow(0, begin, length).copy_(at::softmax(scores, 1).mm(in.v));
                  if (compute_lse) lse[s][h].narrow(0, 0, length).copy_(at::logsumexp(scores, {1}));
                });
  return {out, lse, at::empty({}, at::kLong), at::empty({}, at::kLong), *max_q, *max_k};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> efficient_backward(
    const at::Tensor& d_out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const OptionalTensor& bias, const at::Tensor& out, const OptionalTensor& cu_q, const OptionalTensor& cu_k,
    int64_t max_q, int64_t max_k, const at::Tensor& lse, double dropout, const at::Tensor&, const at::Tensor&,
    int64_t mask, bool bias_requires_grad, std::optional<double> scale, std::optional<int64_t> splits,
    std::optional<int64_t> window, bool shared_storage) {
  TORCH_CHECK(max_q == max_k && scale && !splits && !window && !shared_storage && !bias_requires_grad,
              "nothing else is asked for");
  check_efficient(q, k, v, bias, cu_q, cu_k, max_q, dropout, mask);
  TORCH_CHECK(d_out.sizes() == q.sizes() && out.sizes() == q.sizes(), "shapes of out and d_out");
  TORCH_CHECK(out.is_contiguous(), "the kernel knows no stride of out's tokens");
  const int64_t sequences = cu_q->size(0) - 1, padded = (max_q + 31) / 32 * 32;
  TORCH_CHECK(lse.sizes() == at::IntArrayRef({sequences, q.size(2), padded}) && lse.is_contiguous(), "lse");
  Grads grads = gradients_of(d_out[0], q[0], k[0], v[0], out[0], *cu_q, max_q, *scale,
                             [&](int64_t s, int64_t h, int64_t, int64_t length) {
                               at::Tensor row = lse[s][h], rest = row.narrow(0, length, padded - length);
                               TORCH_CHECK(rest.eq(HUGE_VAL).all().item<bool>(), "the padding of lse");
                               return row.narrow(0, 0, length);
                             });
  auto result = [&](const at::Tensor& x) { return x.to(q.scalar_type()).unsqueeze(0); };
  return {result(grads.q), result(grads.k), result(grads.v), at::Tensor()};
}

}  // namespace

// Returns turns of as few rows as can be.
static std::vector<AttentionTurn> turns_of(const AttentionShape& s) {
  return attention_turns({s.cu_seqlens, s.cu_seqlens + s.sequences + 1}, /*block=*/64, /*fewest_rows=*/0);
}

std::vector<Backend> attention_backends() {
  const auto refusal = [](const auto& a) -> std::string {
    const AttentionShape& s = a.shape;
    const AttentionChoice choice = choose_attention({90, s.type, s.head_dim, s.heads, s.sequences, s.tokens,
                                                     s.longest, s.window, s.softcap, s.sinks != nullptr},
                                                    true);
    return choice.kernel == AttentionKernel::none || choice.kernel == AttentionKernel::own ? choice.reason : "";
  };
  Backend backend("cuda attention over stand-ins");
  backend.add<AttentionForward>([](AttentionForward a) {
                                  const auto turns = turns_of(a.shape);
                                  a.shape.turns = turns;
                                  attention_forward_torch(a, c10::kCPU);
                                }, {},
                                /*rounds_between=*/true, {.refusal = refusal});
  backend.add<AttentionBackward>([](AttentionBackward a) {
                                   const auto turns = turns_of(a.shape);
                                   a.shape.turns = turns;
                                   attention_backward_torch(a, c10::kCPU);
                                 }, {},
                                 /*rounds_between=*/true, {.refusal = refusal});
  return {backend};
}

}  // namespace forge::kernel_test

TORCH_LIBRARY_IMPL(aten, CPU, m) {
  using namespace forge::kernel_test;
  m.impl("_efficient_attention_forward", TORCH_FN(efficient_forward));
  m.impl("_efficient_attention_backward", TORCH_FN(efficient_backward));
}
