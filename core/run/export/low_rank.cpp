#include "core/run/export/low_rank.h"

#include <cmath>
#include <vector>

#include "core/lib/base/threads.h"

namespace forge {
namespace {

void add_row(const LowRank& factors, int64_t row, float* values, float* sum) {
  const int64_t columns = factors.columns;
  for (int64_t i = 0; i < columns; ++i) sum[i] = 0;
  for (int64_t r = 0; r < factors.rank; ++r) {
    const float b = factors.b[row * factors.rank + r];
    const float* a = factors.a + r * columns;
    for (int64_t i = 0; i < columns; ++i) sum[i] += b * a[i];
  }
  const auto scale = static_cast<float>(factors.scale);
  for (int64_t i = 0; i < columns; ++i) values[i] += scale * sum[i];
  if (!factors.magnitude) return;
  double squares = 0;
  for (int64_t i = 0; i < columns; ++i) squares += static_cast<double>(values[i]) * values[i];
  const auto factor = static_cast<float>(factors.magnitude[row] / std::sqrt(squares));
  for (int64_t i = 0; i < columns; ++i) values[i] *= factor;
}

}  // namespace

void add_low_rank(const LowRank& factors, int64_t first, int64_t rows, float* values) {
  for_each_range(rows, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> sum(static_cast<size_t>(factors.columns));
    for (int64_t row = begin; row < end; ++row)
      add_row(factors, first + row, values + row * factors.columns, sum.data());
  });
}

}  // namespace forge
