// Compares principal directions of rows that come in batches with the eigenvectors of their
// covariance.
#include "tests/test.h"

#include "core/model/adapter/input_svd.h"

using namespace forge;

namespace {

// Returns rows [count, 24] around a mean, whose variance falls from feature to feature of a rotated
// basis.
at::Tensor rows_of(int64_t count, int64_t seed) {
  at::manual_seed(7);
  const at::Tensor basis = std::get<0>(at::linalg_qr(at::randn({24, 24}, at::kDouble)));
  const at::Tensor scale = at::pow(at::full({24}, 0.7, at::kDouble), at::arange(24, at::kDouble));
  at::manual_seed(static_cast<uint64_t>(seed));
  return (at::mm(at::randn({count, 24}, at::kDouble) * scale, basis) + 3).to(at::kFloat);
}

// Returns the eigenvectors [rank, 24] of the largest eigenvalues of the covariance, and the
// eigenvalues in falling order.
std::pair<at::Tensor, at::Tensor> exact(const at::Tensor& rows, int64_t rank) {
  const at::Tensor x = rows.to(at::kDouble) - rows.to(at::kDouble).mean(0);
  const auto [values, vectors] = at::linalg_eigh(at::mm(x.t(), x));
  return {vectors.t().flip(0).narrow(0, 0, rank), values.flip(0)};
}

}  // namespace

TEST_CASE("the directions of rows in batches are those of all rows together") {
  constexpr int64_t kRank = 4;
  InputSvd svd(kRank, 1, "layer");
  std::vector<at::Tensor> all;
  for (int64_t i = 0; i < 6; ++i) {
    all.push_back(rows_of(40 + 13 * i, i) + static_cast<double>(i));  // the mean moves as well
    CHECK(svd.empty() == (i == 0));
    REQUIRE(svd.add(all.back()));
  }
  const at::Tensor rows = at::cat(all);
  const auto [directions, values] = exact(rows, kRank);
  const at::Tensor found = svd.directions().to(at::kDouble);
  CHECK(at::mm(found, found.t()).sub(at::eye(kRank, at::kDouble)).abs().max().item<double>() < 1e-5);
  for (int64_t i = 0; i < kRank; ++i) {
    INFO("direction " << i);
    // The tolerance is needed because each batch drops the directions beyond the rank.
    CHECK(std::abs(at::dot(found[i], directions[i]).item<double>()) > 0.99);
    CHECK(svd.singular_values()[i].item<double>() == Approx(std::sqrt(values[i].item<double>())).epsilon(1e-2));
    CHECK(found[i][found[i].abs().argmax()].item<double>() > 0);
  }
}

TEST_CASE("directions are settled when another batch turns none of them") {
  InputSvd svd(3, 1, "layer");
  CHECK_FALSE(svd.settled(0));
  svd.add(rows_of(30, 1));
  CHECK_FALSE(svd.settled(0));  // nothing to compare with
  int64_t batches = 1;
  for (; !svd.settled(0.9999) && batches < 100; ++batches) svd.add(rows_of(30, batches + 1));
  CHECK(batches > 2);
  CHECK(batches < 100);
}

TEST_CASE("fewer rows than directions say nothing, and the same rows the same bits") {
  InputSvd a(5, 1, "layer"), b(5, 1, "layer"), other(5, 2, "layer");
  CHECK_FALSE(a.add(rows_of(4, 1)));
  CHECK(a.empty());
  for (InputSvd* svd : {&a, &b, &other}) REQUIRE(svd->add(rows_of(50, 1)));
  CHECK(at::equal(a.directions(), b.directions()));
  CHECK_FALSE(at::equal(a.directions(), other.directions()));
}
