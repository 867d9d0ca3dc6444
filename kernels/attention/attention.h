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
};

// q [tokens, heads, head_dim]; k, v [tokens, kv_heads, head_dim]; heads is a multiple of kv_heads
// (query head h reads key head h · kv_heads / heads). cu_seqlens [sequences + 1] on the host, from
// 0 to tokens. → [tokens, heads · head_dim]. Differentiable in q, k, v.
at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::vector<int32_t>& cu_seqlens, const AttentionRule& rule);
// Like packed_attention(), with keys of other texts, one text for each sequence of queries: k, v
// [keys, kv_heads, head_dim].
at::Tensor cross_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::vector<int32_t>& cu_queries,
                           const std::vector<int32_t>& cu_keys, const AttentionRule& rule);

// One side of texts that are computed together, group by group, each padded to the longest of its
// group.
struct PaddedTexts {
  std::vector<int64_t> texts, longest;  // of each group
  at::Tensor row_of_slot;               // int64 [slots]: groups end to end, each [texts, longest]; of padding any row
  at::Tensor slot_of_row;               // int64 [tokens]
  at::Tensor padding;                   // bool [slots]
};

// Like cross_attention(), in few calls for many short texts. The groups of both sides hold the same
// texts. Windows and sinks are not supported: throws an Error.
at::Tensor grouped_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const PaddedTexts& queries,
                             const PaddedTexts& keys, const AttentionRule& rule);

// One sequence against cached keys: q [new, heads, head_dim], k, v [past + new, kv_heads,
// head_dim]; query i sees keys up to past + i. Not differentiable.
at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const AttentionRule& rule);

}  // namespace forge
