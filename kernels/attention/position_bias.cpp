#include "kernels/attention/position_bias.h"

#include <ATen/ATen.h>

#include <cmath>

namespace forge {

at::Tensor position_buckets(const at::Tensor& distances, int64_t buckets, int64_t most, bool causal) {
  if (!causal) buckets /= 2;
  const at::Tensor first = causal ? at::zeros_like(distances) : (distances > 0).to(at::kLong) * buckets;
  const at::Tensor apart = causal ? (-distances).clamp_min(0) : distances.abs();
  const int64_t exact = buckets / 2;
  // Computes in fp32 and in this order, like transformers: distances are on the bounds of buckets,
  // so rounding matters.
  const at::Tensor share = at::log(apart.to(at::kFloat) / exact) / std::log(static_cast<double>(most) / static_cast<double>(exact));
  const at::Tensor wide = exact + (share * (buckets - exact)).clamp_min(0).to(at::kLong);
  return first + at::where(apart < exact, apart, wide.clamp_max(buckets - 1));
}

// Returns every distance once, those of the last query first; a query's distances are then a window
// of them.
static at::Tensor distances(const at::Tensor& like, int64_t queries, int64_t keys, bool causal) {
  const int64_t past = causal ? keys - queries : 0;
  return at::arange(1 - queries - past, keys - past, like.options().dtype(at::kLong).requires_grad(false));
}

at::Tensor position_bias(const at::Tensor& table, int64_t queries, int64_t keys, int64_t most, bool causal) {
  const at::Tensor of_distance = table.index_select(0, position_buckets(distances(table, queries, keys, causal), table.size(0), most, causal));
  return of_distance.t().unfold(1, keys, 1).flip(1).unsqueeze(0);
}

// A distance's scores lie on a diagonal: with zeros before each row, rows that begin one element
// later have each diagonal in a column. The zeros before the next row end the last ones.
at::Tensor position_bias_backward(const at::Tensor& d_scores, int64_t buckets, int64_t most, bool causal) {
  const int64_t heads = d_scores.size(0), queries = d_scores.size(1), keys = d_scores.size(2), width = queries - 1 + keys;
  const at::Tensor padded = at::constant_pad_nd(d_scores, {queries - 1, 0, 0, 1});
  const at::Tensor of_distance = padded.as_strided({heads, queries, width}, {(queries + 1) * width, width + 1, 1}).sum(at::IntArrayRef{1}, false, at::kFloat);
  const at::Tensor index = position_buckets(distances(d_scores, queries, keys, causal), buckets, most, causal);
  return at::zeros({buckets, heads}, of_distance.options()).index_add_(0, index, of_distance.t());
}

namespace {

// Returns the slopes of `heads` heads, a power of two: base, base², … or every other one.
at::Tensor slopes_of(int64_t heads, int64_t count, int64_t step, const at::TensorOptions& wide) {
  const double exponent = -std::exp2(3 - std::log2(static_cast<double>(heads)));
  return at::pow(at::full({}, std::exp2(exponent), wide), at::arange(1, 1 + step * count, step, wide.dtype(at::kInt)));
}

}  // namespace

at::Tensor alibi_bias(int64_t heads, int64_t keys, const at::Tensor& like) {
  const at::TensorOptions wide = like.options().dtype(at::kFloat).requires_grad(false);
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  at::Tensor slopes = slopes_of(power, power, 1, wide);
  if (power < heads) slopes = at::cat({slopes, slopes_of(2 * power, heads - power, 2, wide)});
  const at::Tensor positions = at::arange(keys, wide.dtype(at::kLong));
  return (slopes.unsqueeze(1) * positions).unsqueeze(1).unsqueeze(0).to(like.scalar_type());
}

}  // namespace forge
