#include "core/model/adapter/input_svd.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "core/model/adapter/first_values.h"

namespace forge {
namespace {

// Iterations, and columns of the searched subspace beyond the rank: where singular values fall
// slowly, twice the rank alone leaves directions some degrees off.
constexpr int64_t kIterations = 4, kMoreColumns = 32;

at::Tensor orthonormal(const at::Tensor& columns) { return std::get<0>(at::linalg_qr(columns)); }

struct Svd {
  at::Tensor values, directions;  // [rank], [rank, in]
};

// Returns the first `rank` singular values and directions of x [n, in], from a wider subspace.
Svd truncated_svd(const at::Tensor& x, int64_t rank, int64_t seed, const std::string& stream) {
  const int64_t width = std::min({std::max(2 * rank, rank + kMoreColumns), x.size(0), x.size(1)});
  at::Tensor start = at::empty({x.size(1), width}, at::kFloat);
  draw_normal(start, seed, stream, 1);
  at::Tensor q = orthonormal(at::mm(x, start.to(x.device())));
  for (int64_t i = 0; i < kIterations; ++i) q = orthonormal(at::mm(x, orthonormal(at::mm(x.t(), q))));
  const auto [u, s, vt] = at::linalg_svd(at::mm(q.t(), x), /*full_matrices=*/false);
  at::Tensor directions = vt.narrow(0, 0, rank);
  // A singular vector has no sign of its own. The sign is chosen so that its largest entry is
  // positive.
  const at::Tensor largest = directions.gather(1, directions.abs().argmax(1, /*keepdim=*/true));
  return {s.narrow(0, 0, rank).contiguous(), (directions * at::sign(largest)).contiguous()};
}

}  // namespace

bool InputSvd::add(const at::Tensor& rows) {
  c10::NoGradGuard no_grad;
  if (rows.size(0) < rank_) return false;
  at::Tensor x = rows.to(at::kFloat);
  const at::Tensor own_mean = at::mean(x, at::IntArrayRef{0}, /*keepdim=*/false, at::kDouble);
  const auto count = static_cast<double>(x.size(0)), before = static_cast<double>(rows_);
  x = x - own_mean.to(at::kFloat);  // [n, in]
  if (empty()) {
    mean_ = own_mean;
  } else {
    // The earlier batches count as a few more rows, and so does the difference of the two means.
    const at::Tensor apart = (mean_ - own_mean) * std::sqrt(before / (before + count) * count);
    x = at::cat({singular_values_.unsqueeze(1) * directions_, x, apart.to(at::kFloat).unsqueeze(0)});
    mean_ = (mean_ * before + own_mean * count) / (before + count);
  }
  rows_ += rows.size(0);
  const Svd svd = truncated_svd(x, rank_, seed_, "eva/" + name_ + "/" + std::to_string(batches_++));
  if (!empty()) cosine_ = at::cosine_similarity(svd.directions, directions_, 1).min().item<double>();
  directions_ = svd.directions, singular_values_ = svd.values;
  return true;
}

}  // namespace forge
