#pragma once
// A bias of attention's scores by the distance of key and query (Raffel et al., "Exploring the
// limits of transfer learning", 2020, as transformers' T5 computes it): distances fall into
// buckets, small ones each into its own, larger ones by their logarithm. In a text whose queries
// see all keys, half of the buckets are for keys after the query.
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace forge {

// Returns the bucket in [0, buckets) of each of `distances` = key − query, int64. All distances
// from `most` on have the last bucket. If `causal`, keys after the query count as the query itself.
at::Tensor position_buckets(const at::Tensor& distances, int64_t buckets, int64_t most, bool causal);

// table [buckets, heads] → [1, heads, queries, keys]; causal queries are the last of the keys'
// tokens. Differentiable.
at::Tensor position_bias(const at::Tensor& table, int64_t queries, int64_t keys, int64_t most, bool causal);
// Returns the table's gradient, fp32 [buckets, heads], by that of a text's scores [heads, queries,
// keys].
at::Tensor position_bias_backward(const at::Tensor& d_scores, int64_t buckets, int64_t most, bool causal);

// Returns ALiBi's bias (Press et al., "Train short, test long", 2021) as transformers' BLOOM adds
// it: each key's position times its head's slope, [1, heads, 1, keys] in fp32 then rounded to the
// type of `like`. The slopes are powers of one base where the number of heads is a power of two.
at::Tensor alibi_bias(int64_t heads, int64_t keys, const at::Tensor& like);

}  // namespace forge
