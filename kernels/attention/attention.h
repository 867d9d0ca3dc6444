#pragma once
// Attention over packed sequences: softmax(q kᵀ · scale + bias) v inside each sequence, never
// across sequences. Windows and caps are defined as in attention_args.h.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace forge {

struct AttentionRule {
  double scale = 1, softcap = 0;  // no cap: 0
  int64_t window = 0;             // tokens that a query looks back on, itself included; 0: all
  // A logit for each head (gpt-oss), [heads]: exp(sink) is added to the softmax's denominator.
  // Undefined: none. Differentiable.
  at::Tensor sinks = {};
  bool causal = true;  // else a query sees all keys of its sequence, and there is no window
  // Added to the scores (T5): a number for each bucket of distances (position_bias.h) and head,
  // [buckets, heads]. Undefined: none. Differentiable.
  at::Tensor position_table = {};
  int64_t position_distance = 0;
  bool alibi = false;  // alibi_bias() is added to the scores
};

// q [tokens, heads, head_dim]; k, v [keys, kv_heads, head_dim]: of the same texts, or of others,
// one for each sequence of queries. heads is a multiple of kv_heads (query head h reads key head
// h · kv_heads / heads). cu_queries and cu_keys [sequences + 1] on the host, from 0 to tokens and
// keys. → [tokens, heads · head_dim]. Differentiable in q, k, v.
at::Tensor cross_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::vector<int32_t>& cu_queries,
                           const std::vector<int32_t>& cu_keys, const AttentionRule& rule);

// One side, queries or keys, of texts that are computed together, each padded to the longest.
struct PaddedTexts {
  int64_t texts = 1, longest = 0;
  int64_t first = 0;       // the first row of a text by itself
  // Set for several texts: int64 [texts · longest], the row of each slot, of padding any row; and
  // the slots that are no padding with the row of each.
  at::Tensor row_of_slot = {}, slots = {}, rows = {};
  at::Tensor padding = {};  // bool [texts · longest]; undefined where there is none
};
// Texts of a micro-batch, group by group. Both sides of a group hold the same texts.
struct TextSides {
  std::vector<PaddedTexts> queries, keys;
};

// Returns each sequence as a group by itself.
std::vector<PaddedTexts> single_texts(const std::vector<int32_t>& cu_seqlens);

// Compute attention and its gradients group by group: what a group takes is free before the next
// one begins. A group of several texts supports neither a window nor sinks: throws an Error.
// q, out, d_out [queries, heads, head_dim] and k, v [keys, kv_heads, head_dim] may have strides.
// lse [queries, heads] is fp32: the forward writes it where LibTorch's kernel gives it, and the
// backward then reads it and out.
struct Attended {
  at::Tensor out, lse;
};
void attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const TextSides& texts, const AttentionRule& rule,
            const Attended& made);
// Writes d q, d k and d v, none of which may be an input. Returns the gradient of the rule's sinks
// or table if that requires one, else an undefined tensor.
at::Tensor attend_backward(const at::Tensor& d_out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const Attended& made, const TextSides& texts, const AttentionRule& rule, const at::Tensor& d_q,
                           const at::Tensor& d_k, const at::Tensor& d_v);

// One sequence against cached keys: q [new, heads, head_dim], k, v [past + new, kv_heads,
// head_dim]; query i sees keys up to past + i. Not differentiable.
at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const AttentionRule& rule);

}  // namespace forge
