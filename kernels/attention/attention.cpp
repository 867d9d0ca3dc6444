#include "kernels/attention/attention.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>

#include "core/lib/base/error.h"
#include "kernels/attention/position_bias.h"

namespace forge {
namespace {

// [tokens, heads, head_dim] → [1, heads, tokens, head_dim], as LibTorch's attention wants it; no
// copy.
at::Tensor heads_first(const at::Tensor& x) { return x.transpose(0, 1).unsqueeze(0); }

// Repeats heads of keys, dimension 1, for the heads of their queries.
at::Tensor repeat_heads(const at::Tensor& x, int64_t heads) {
  int64_t groups = heads / x.size(1);
  return groups == 1 ? x : x.repeat_interleave(groups, 1);
}

// True where one of the last `queries` of `keys` tokens may look; undefined: everywhere. [queries,
// keys]
at::Tensor sight(int64_t queries, int64_t keys, const AttentionRule& rule, const at::Tensor& like) {
  if (!rule.causal) return {};
  const int64_t past = keys - queries, window = rule.window;
  at::Tensor seen = at::ones({queries, keys}, like.options().dtype(at::kBool)).tril(past);
  return window > 0 ? seen.triu(past + 1 - window) : seen;
}

bool by_steps(const AttentionRule& rule) {
  return rule.softcap != 0 || rule.sinks.defined() || rule.position_table.defined() || rule.alibi;
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Batched products of 16-bit numbers on a GPU, added up in fp32. LibTorch leaves it to cuBLAS
// whether it adds such products up in fp32, and has no setting for them.
struct WideProduct : torch::autograd::Function<WideProduct> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& a, const at::Tensor& b) {
    context->save_for_backward({a, b});
    return of(a, b);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    return {of(grads[0], saved[1].transpose(2, 3)), of(saved[0].transpose(2, 3), grads[0])};
  }

 private:
  static at::Tensor of(const at::Tensor& a, const at::Tensor& b) {
    return at::matmul(a.to(at::kFloat), b.to(at::kFloat)).to(a.scalar_type());
  }
};

// Returns a · b of each text and head, with sums in fp32.
// a is [texts, heads, rows, depth], b is [texts, heads, depth, columns].
at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  return a.is_cuda() && a.element_size() == 2 ? WideProduct::apply(a, b) : at::matmul(a, b);
}

// Returns the scores of each text and head, capped, biased and masked, with the sinks as one more
// column: [texts, heads, queries, keys (+ 1)].
at::Tensor eager_scores(const at::Tensor& q, const at::Tensor& k, const at::Tensor& seen, const AttentionRule& rule) {
  at::Tensor scores = product(q, k.transpose(2, 3));
  if (rule.scale != 1) scores.mul_(rule.scale);
  if (rule.softcap != 0) scores = (scores / rule.softcap).tanh() * rule.softcap;
  if (rule.position_table.defined())
    scores.add_(position_bias(rule.position_table, q.size(2), k.size(2), rule.position_distance, rule.causal).to(q.scalar_type()));
  if (rule.alibi) scores.add_(alibi_bias(q.size(1), k.size(2), q));
  if (seen.defined()) scores.masked_fill_(seen.logical_not(), -std::numeric_limits<double>::infinity());
  if (!rule.sinks.defined()) return scores;
  return at::cat({scores, rule.sinks.to(q.scalar_type()).view({1, -1, 1, 1}).expand({1, q.size(1), q.size(2), 1})}, -1);
}

// Computes attention step by step, like transformers' eager attention: LibTorch's kernels support
// neither a cap nor sinks, and give a bias no gradient.
// Operands are [texts, heads, length, head_dim]. Sinks require a single text.
at::Tensor eager_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const at::Tensor& seen, const AttentionRule& rule) {
  const at::Tensor shares = at::softmax(eager_scores(q, k, seen, rule), -1, at::kFloat).to(q.scalar_type());
  return product(shares.narrow(-1, 0, k.size(2)), v);
}

struct EagerGradients {
  at::Tensor q, k, v, scores;  // scores: before a scale or cap, [texts, heads, queries, keys (+ 1)]
};

// Returns the gradients of eager_attention(): the scores are made again, and nothing is mixed.
EagerGradients eager_backward(const at::Tensor& d_out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const at::Tensor& seen, const AttentionRule& rule) {
  const c10::ScalarType type = q.scalar_type();
  at::Tensor scores = eager_scores(q, k, seen, rule), slope;
  if (rule.softcap != 0) slope = 1 - (scores.narrow(-1, 0, k.size(2)) / rule.softcap).square();
  at::Tensor wide = at::softmax(scores, -1, at::kFloat);
  scores = at::Tensor();
  EagerGradients d;
  d.v = product(wide.narrow(-1, 0, k.size(2)).to(type).transpose(2, 3), d_out);
  at::Tensor d_shares = product(d_out, v.transpose(2, 3)).to(at::kFloat);
  if (rule.sinks.defined()) d_shares = at::constant_pad_nd(d_shares, {0, 1});
  d.scores = at::_softmax_backward_data(d_shares, wide, -1, at::kFloat);
  wide = d_shares = at::Tensor();
  d.scores = d.scores.to(type);
  at::Tensor d_products = d.scores.narrow(-1, 0, k.size(2));
  if (slope.defined()) d_products = d_products * slope.masked_fill_(slope.isinf(), 0);  // of hidden keys
  if (rule.scale != 1) d_products = d_products * rule.scale;
  d.q = product(d_products, k), d.k = product(d_products.transpose(2, 3), q);
  return d;
}

// Returns the gradient of the rule's table or sinks by that of a group's scores.
at::Tensor rule_gradient(const at::Tensor& d_scores, int64_t keys, const AttentionRule& rule) {
  if (rule.sinks.defined()) return d_scores.select(-1, keys).to(at::kFloat).sum(at::IntArrayRef{0, 2}).to(rule.sinks.scalar_type());
  const at::Tensor of_texts = d_scores.size(0) == 1 ? d_scores[0] : d_scores.sum(at::IntArrayRef{0}, false, at::kFloat);
  return position_bias_backward(of_texts, rule.position_table.size(0), rule.position_distance, rule.causal).to(rule.position_table.scalar_type());
}

// Computes one sequence. Causal queries are the last of its k.size(0) tokens. q is [queries, heads,
// head_dim], k and v are [keys, heads, head_dim] → [queries, heads · head_dim].
at::Tensor one_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const AttentionRule& rule) {
  const int64_t queries = q.size(0), keys = k.size(0);
  const bool all = !rule.causal || rule.window == 0 || rule.window >= keys, eager = by_steps(rule),
             plain = rule.causal && all && !eager && queries == keys;
  const bool last = all && queries == 1;  // sees every key
  const at::Tensor seen =
      plain || (last && !eager) ? at::Tensor() : sight(queries, keys, rule, q);
  const auto mask = seen.defined() ? std::optional<at::Tensor>(seen) : std::nullopt;
  at::Tensor out =
      eager
          ? eager_attention(heads_first(q), heads_first(k), heads_first(v), seen, rule)
          : at::scaled_dot_product_attention(heads_first(q), heads_first(k), heads_first(v), mask,
                                             /*dropout_p=*/0.0, /*is_causal=*/plain, rule.scale);
  return out.squeeze(0).transpose(0, 1).reshape({queries, q.size(1) * q.size(2)});
}

// Returns the rows of a group, [texts, heads, longest, head_dim].
// rows is [tokens, heads, head_dim].
at::Tensor padded(const at::Tensor& rows, const PaddedTexts& side) {
  if (side.texts == 1) return heads_first(rows.narrow(0, side.first, side.longest));
  return rows.index_select(0, side.row_of_slot).view({side.texts, side.longest, rows.size(1), rows.size(2)}).transpose(1, 2);
}

// Copies what belongs to a group's rows to its place. `group` is [texts, heads, longest, head_dim].
void settle(const at::Tensor& group, const PaddedTexts& side, const at::Tensor& rows) {
  if (side.texts == 1) {
    rows.narrow(0, side.first, side.longest).copy_(group.squeeze(0).transpose(0, 1));
    return;
  }
  const at::Tensor slots = group.transpose(1, 2).reshape({-1, rows.size(1), rows.size(2)});
  const at::Tensor there = side.padding.defined() ? slots.index_select(0, side.slots) : slots;
  rows.index_copy_(0, side.rows, there);
}

// Adds up the gradients of repeated heads.
at::Tensor summed(const at::Tensor& d_keys, int64_t kv_heads) {
  return d_keys.size(1) == kv_heads ? d_keys : d_keys.unflatten(1, {kv_heads, -1}).sum(2);
}

// Returns a mask that is true where a group's query may look; undefined: everywhere, or as
// LibTorch's causal kernels do. A causal query does not see past itself, and padding comes after
// the text.
at::Tensor seen_by(const PaddedTexts& queries, const PaddedTexts& keys, const AttentionRule& rule, const at::Tensor& like) {
  const bool window = rule.window > 0 && rule.window < keys.longest;
  FORGE_CHECK(keys.texts == 1 || (!window && !rule.sinks.defined()), "texts in groups have no window and no sinks");
  if (rule.causal)
    return by_steps(rule) || window || queries.longest != keys.longest ? sight(queries.longest, keys.longest, rule, like) : at::Tensor();
  return keys.padding.defined() ? keys.padding.logical_not().view({keys.texts, 1, 1, keys.longest}) : at::Tensor();
}

at::Tensor sdpa(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& seen, const AttentionRule& rule) {
  const auto mask = seen.defined() ? std::optional<at::Tensor>(seen) : std::nullopt;
  return at::scaled_dot_product_attention(q, k, v, mask, /*dropout_p=*/0.0, rule.causal && !mask, rule.scale);
}

std::vector<at::Tensor> sdpa_gradients(const at::Tensor& d_out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                       const at::Tensor& seen, const AttentionRule& rule) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& x : {q, k, v}) leaves.push_back(x.detach().requires_grad_(true));
  c10::AutoGradMode on(true);
  const at::Tensor out = sdpa(leaves[0], repeat_heads(leaves[1], q.size(1)), repeat_heads(leaves[2], q.size(1)), seen, rule);
  return torch::autograd::grad({out}, leaves, {d_out});
}

// True if LibTorch computes a group by its flash kernel for CPUs, whose backward reads the result
// and lse of the forward. q, k and v are [1, heads, length, head_dim].
bool by_cpu_flash(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& seen, const AttentionRule& rule) {
  constexpr int64_t kFlash = 1;  // sdp::SDPBackend::flash_attention
  return q.is_cpu() && q.size(0) == 1 && rule.causal && !seen.defined() &&
         at::_fused_sdp_choice(q, k, v, {}, 0.0, /*is_causal=*/true, rule.scale) == kFlash;
}

// Returns lse [queries, heads] of one text as LibTorch has it.
at::Tensor lse_of(const at::Tensor& lse, const PaddedTexts& queries) {
  return lse.narrow(0, queries.first, queries.longest).t().unsqueeze(0);
}

std::vector<at::Tensor> flash_gradients(const at::Tensor& d_out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                        const Attended& made, const PaddedTexts& queries, const AttentionRule& rule) {
  const auto [d_q, d_k, d_v] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      d_out, q, repeat_heads(k, q.size(1)), repeat_heads(v, q.size(1)), padded(made.out, queries), lse_of(made.lse, queries), 0.0,
      /*is_causal=*/true, {}, rule.scale);
  return {d_q, summed(d_k, k.size(1)), summed(d_v, k.size(1))};
}

std::vector<int64_t> lengths(const std::vector<int32_t>& cu_seqlens) {
  std::vector<int64_t> lengths;
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s) lengths.push_back(cu_seqlens[s + 1] - cu_seqlens[s]);
  return lengths;
}

}  // namespace

at::Tensor cross_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::vector<int32_t>& cu_queries,
                           const std::vector<int32_t>& cu_keys, const AttentionRule& rule) {
  int64_t tokens = q.size(0), heads = q.size(1), width = heads * q.size(2);
  if (tokens == 0) return q.reshape({tokens, width});
  // LibTorch's CPU flash attention does not know grouped queries; expanding here costs less than
  // its fallback.
  at::Tensor all_k = repeat_heads(k, heads), all_v = repeat_heads(v, heads);
  if (cu_queries.size() == 2) return one_attention(q, all_k, all_v, rule);
  // Splits instead of narrowing: the gradient of a narrow is a zeroed tensor of all tokens, once
  // for every sequence.
  const std::vector<int64_t> of_keys = lengths(cu_keys);
  std::vector<at::Tensor> qs = at::split_with_sizes(q, lengths(cu_queries)), ks = at::split_with_sizes(all_k, of_keys),
                          vs = at::split_with_sizes(all_v, of_keys), parts;
  for (size_t s = 0; s < of_keys.size(); ++s) parts.push_back(one_attention(qs[s], ks[s], vs[s], rule));
  return at::cat(parts, 0);
}

std::vector<PaddedTexts> single_texts(const std::vector<int32_t>& cu_seqlens) {
  std::vector<PaddedTexts> texts;
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s)
    texts.push_back({.longest = cu_seqlens[s + 1] - cu_seqlens[s], .first = cu_seqlens[s]});
  return texts;
}

void attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const TextSides& texts, const AttentionRule& rule,
            const Attended& made) {
  for (size_t g = 0; g < texts.queries.size(); ++g) {
    const PaddedTexts& queries = texts.queries[g];
    const at::Tensor of_keys = repeat_heads(padded(k, texts.keys[g]), q.size(1)), of_values = repeat_heads(padded(v, texts.keys[g]), q.size(1));
    const at::Tensor seen = seen_by(queries, texts.keys[g], rule, q), of_q = padded(q, queries);
    if (!by_steps(rule) && by_cpu_flash(of_q, of_keys, of_values, seen, rule)) {
      const auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(of_q, of_keys, of_values, 0.0, /*is_causal=*/true, {}, rule.scale);
      settle(out, queries, made.out);
      lse_of(made.lse, queries).copy_(lse);
      continue;
    }
    const auto compute = by_steps(rule) ? eager_attention : sdpa;
    settle(compute(of_q, of_keys, of_values, seen, rule), queries, made.out);
  }
}

at::Tensor attend_backward(const at::Tensor& d_out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const Attended& made, const TextSides& texts, const AttentionRule& rule, const at::Tensor& d_q,
                           const at::Tensor& d_k, const at::Tensor& d_v) {
  const at::Tensor& learnt = rule.position_table.defined() ? rule.position_table : rule.sinks;
  at::Tensor d_learnt;
  for (size_t g = 0; g < texts.queries.size(); ++g) {
    const PaddedTexts &queries = texts.queries[g], &keys = texts.keys[g];
    at::Tensor d_group = padded(d_out, queries);
    if (queries.padding.defined())
      d_group = d_group.masked_fill(queries.padding.view({queries.texts, 1, queries.longest, 1}), 0);
    const at::Tensor of_q = padded(q, queries), of_k = padded(k, keys), of_v = padded(v, keys);
    if (by_steps(rule)) {
      const EagerGradients d = eager_backward(d_group, of_q, repeat_heads(of_k, q.size(1)), repeat_heads(of_v, q.size(1)),
                                              seen_by(queries, keys, rule, q), rule);
      settle(d.q, queries, d_q), settle(summed(d.k, k.size(1)), keys, d_k), settle(summed(d.v, k.size(1)), keys, d_v);
      if (!learnt.defined() || !learnt.requires_grad()) continue;
      const at::Tensor of_group = rule_gradient(d.scores, keys.longest, rule);
      d_learnt = d_learnt.defined() ? d_learnt + of_group : of_group;
    } else {
      const at::Tensor seen = seen_by(queries, keys, rule, q);
      const std::vector<at::Tensor> d = by_cpu_flash(of_q, of_k, of_v, seen, rule) ? flash_gradients(d_group, of_q, of_k, of_v, made, queries, rule)
                                                                                   : sdpa_gradients(d_group, of_q, of_k, of_v, seen, rule);
      settle(d[0], queries, d_q), settle(d[1], keys, d_k), settle(d[2], keys, d_v);
    }
  }
  return d_learnt;
}

at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const AttentionRule& rule) {
  // Keys that a window hides from all queries are not read.
  const int64_t total = k.size(0), heads = q.size(1);
  const int64_t seen = rule.window > 0 ? std::min(total, rule.window + q.size(0) - 1) : total;
  const auto last = [&](const at::Tensor& x) {
    return repeat_heads(x.narrow(0, total - seen, seen), heads);
  };
  return one_attention(q, last(k), last(v), rule);
}

}  // namespace forge
