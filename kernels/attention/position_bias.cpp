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

at::Tensor position_bias(const at::Tensor& table, int64_t queries, int64_t keys, int64_t most, bool causal) {
  const int64_t past = causal ? keys - queries : 0;
  const auto options = table.options().dtype(at::kLong).requires_grad(false);
  // `distances` holds every distance once, those of the last query first; a query's distances are
  // then a window of them.
  const at::Tensor distances = at::arange(1 - queries - past, keys - past, options);
  const at::Tensor of_distance = table.index_select(0, position_buckets(distances, table.size(0), most, causal));
  return of_distance.t().unfold(1, keys, 1).flip(1).unsqueeze(0);
}

}  // namespace forge
