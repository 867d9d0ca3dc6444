// Decoding stands on it: what a row becomes does not depend on the rows beside it, nor on where it stands among them.
#include <vector>

#include "kernels/product/gemm_tiles.h"
#include "kernels/product/product_args.h"
#include "tests/kernels/case.h"
#include "tests/test.h"

namespace forge::kernel_test {
namespace {

constexpr int64_t kIn = 300, kOut = 75, kRows = 505;

// y of rows [first, first + count) of x.
using Product = std::function<void(const float* x, int64_t count, float* y)>;

void check_rows(const Product& product) {
  const at::Tensor x = normal({kRows, kIn}, 1).to(at::kFloat);
  std::vector<float> all(kRows * kOut), some(kRows * kOut);
  product(x.const_data_ptr<float>(), kRows, all.data());
  for (int64_t first : {0, 1, 7, 250, 499})
    for (int64_t count : {1, 2, 5, 6, 13, 31}) {
      if (first + count > kRows) continue;
      product(x.const_data_ptr<float>() + first * kIn, count, some.data());
      INFO(count << " rows from " << first << " on");
      CHECK(std::equal(some.begin(), some.begin() + count * kOut, all.begin() + first * kOut));
    }
}

}  // namespace

TEST_CASE("a row of a product has the same bits in whatever company it comes") {
  const at::Tensor w = normal({kOut, kIn}, 2).to(at::kFloat);
  for (CpuLevel level : cpu_levels()) {
    INFO(name_of(level));
    check_rows([&](const float* x, int64_t count, float* y) {
      gemm_tiles_cpu({.m = count,
                      .n = kOut,
                      .k = kIn,
                      .a = {x, kIn},
                      .b = {w.const_data_ptr(), kIn, /*transposed=*/true},
                      .out = y,
                      .out_stride = kOut},
                     level);
    });
    check_rows([&](const float* x, int64_t count, float* y) {
      RowProduct args{Element::f32, Element::f32, count, kIn, kOut, x, kIn, w.const_data_ptr()};
      args.y = y, args.y_stride = kOut;
      row_product_cpu(args, level);
    });
  }
}

}  // namespace forge::kernel_test
