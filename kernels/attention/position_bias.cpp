#include "kernels/attention/position_bias.h"

#include <ATen/ATen.h>

#include <cmath>

namespace forge {

at::Tensor position_buckets(const at::Tensor& distances, int64_t buckets, int64_t most, bool causal) {
  if (!causal) buckets /= 2;
  const at::Tensor first = causal ? at::zeros_like(distances) : (distances > 0).to(at::kLong) * buckets;
  const at::Tensor apart = causal ? (-distances).clamp_min(0) : distances.abs();
  const int64_t exact = buckets / 2;
  // In fp32 and in this order, as transformers rounds it: distances lie on the bounds of buckets.
  const at::Tensor share = at::log(apart.to(at::kFloat) / exact) / std::log(static_cast<double>(most) / static_cast<double>(exact));
  const at::Tensor wide = exact + (share * (buckets - exact)).clamp_min(0).to(at::kLong);
  return first + at::where(apart < exact, apart, wide.clamp_max(buckets - 1));
}

at::Tensor position_bias(const at::Tensor& table, int64_t queries, int64_t keys, int64_t most, bool causal) {
  const int64_t past = causal ? keys - queries : 0;
  const auto options = table.options().dtype(at::kLong).requires_grad(false);
  const at::Tensor distances = at::arange(keys, options).unsqueeze(0) - (at::arange(queries, options) + past).unsqueeze(1);
  const at::Tensor rows = position_buckets(distances, table.size(0), most, causal).flatten();
  return table.index_select(0, rows).view({1, queries, keys, table.size(1)}).permute({0, 3, 1, 2});
}

}  // namespace forge
