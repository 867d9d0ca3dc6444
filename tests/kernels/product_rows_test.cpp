// Checks a property that decoding relies on: the result of a row does not depend on the rows beside
// it, nor on its position among them.
#include <vector>

#include "kernels/product/gemm_tiles.h"
#include "kernels/product/product_args.h"
#include "tests/kernels/case.h"
#include "tests/kernels/gguf_blocks.h"
#include "tests/test.h"

namespace forge::kernel_test {
namespace {

constexpr int64_t kIn = 300, kOut = 75, kRows = 505;

// Computes y of rows [first, first + count) of x.
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

TEST_CASE("pairs of bf16 that are split give the bits of the instruction that multiplies them") {
  if (cpu_level() < CpuLevel::avx512_bf16 || !made_by_intel()) return;  // others split none
  constexpr int64_t kOuts = 149;  // more columns than a task, in no whole tiles
  for (const int64_t in : {1, 31, 300, 1200}) {
    const at::Tensor x = normal({kRows, in}, 1).to(at::kBFloat16), w = normal({kOuts, in}, 2).to(at::kBFloat16);
    for (const int64_t count : {17, 32, 61, 505}) {
      INFO(count << " rows of " << in);
      RowProduct args{Element::bf16, Element::f32, count, in, kOuts, x.const_data_ptr(), in, w.const_data_ptr()};
      std::vector<char> workspace(static_cast<size_t>(row_product_cpu_workspace(args)));
      std::vector<float> split(static_cast<size_t>(count * kOuts)), alone(split.size());
      args.workspace = workspace.data(), args.y = split.data(), args.y_stride = kOuts;
      row_product_split_cpu(args, CpuLevel::avx512_bf16);
      args.rows = 1;  // as the instruction multiplies them
      for (int64_t row = 0; row < count; ++row) {
        args.x = x.const_data_ptr<c10::BFloat16>() + row * in, args.y = alone.data() + row * kOuts;
        row_product_cpu(args, CpuLevel::avx512_bf16);
      }
      CHECK(split == alone);
    }
  }
}

TEST_CASE("a row of a product in whole numbers has the same bits in any company, on any processor; what is not finite becomes NaN in its own row") {
  constexpr int64_t kWide = 192, kColumns = 48, kMany = 21;
  const GgufType type = gguf_types()[1];
  REQUIRE(type.dtype == DType::q4_0);
  const BlockCoding coding = *coding_by_16(type.coding, kColumns);
  const at::Tensor codes = laid_by_16(coding, gguf_bytes(type, kColumns, kWide, 1), kColumns, kWide).to(at::kByte);
  at::Tensor x = normal({kMany, kWide}, 2).to(at::kBFloat16);
  x[3][40] = std::numeric_limits<float>::quiet_NaN(), x[10][191] = std::numeric_limits<float>::infinity(), x[12][0] = -std::numeric_limits<float>::infinity();
  const auto rows = [&](CpuLevel level, int64_t first, int64_t count) {
    RowProduct args{Element::bf16, Element::f32, count, kWide, kColumns, x.const_data_ptr<c10::BFloat16>() + first * kWide, kWide};
    args.blocks = {.type = Element::f32, .coding = coding, .rows = kColumns, .columns = kWide, .codes = codes.const_data_ptr<uint8_t>()};
    at::Tensor y = at::empty({count, kColumns}, at::kFloat);
    std::vector<char> workspace(static_cast<size_t>(row_product_cpu_workspace(args)));
    args.y = y.data_ptr(), args.y_stride = kColumns, args.workspace = workspace.data();
    row_product_cpu(args, level);
    return y;
  };
  const at::Tensor all = rows(CpuLevel::baseline, 0, kMany);
  for (int64_t row = 0; row < kMany; ++row) {
    INFO("row " << row);
    const bool finite = row != 3 && row != 10 && row != 12;
    CHECK(all[row].isnan().sum().item<int64_t>() == (finite ? 0 : kColumns));
  }
  for (CpuLevel level : cpu_levels())
    for (int64_t first : {0, 2, 4, 13})
      for (int64_t count : {1, 2, 3, 6, 8}) {
        INFO(name_of(level) << ", " << count << " rows from " << first << " on");
        CHECK(rows(level, first, count).view(at::kInt).equal(all.narrow(0, first, count).view(at::kInt)));
      }
}

TEST_CASE("products of a group have the bits that each has alone") {
  struct Shape {
    int64_t m, n, k;
    bool transposed, add;
  };
  // The shapes have more than one block in rows and columns, one row, no rows, and an empty sum.
  const Shape shapes[] = {{497, 130, 200, true, false}, {1, 75, 300, true, false}, {0, 75, 300, true, false}, {33, 70, 0, false, false},
                          {20, 64, 0, false, true},     {31, 16, 140, false, true}};
  std::vector<at::Tensor> kept;
  const auto products_into = [&](std::vector<at::Tensor>& results) {
    std::vector<Gemm> products;
    for (const Shape& s : shapes) {
      const at::Tensor a = normal({s.m, s.k}, 3).to(at::kFloat), b = normal({s.transposed ? s.n : s.k, s.transposed ? s.k : s.n}, 4).to(at::kFloat);
      kept.push_back(a), kept.push_back(b), results.push_back(normal({s.m, s.n}, 5).to(at::kFloat));
      products.push_back({.m = s.m, .n = s.n, .k = s.k,
                          .a = {a.const_data_ptr(), s.k},
                          .b = {b.const_data_ptr(), s.transposed ? s.k : s.n, s.transposed},
                          .out = results.back().data_ptr(), .out_stride = s.n, .add = s.add});
    }
    return products;
  };
  for (CpuLevel level : cpu_levels()) {
    INFO(name_of(level));
    std::vector<at::Tensor> alone, together;
    for (const Gemm& g : products_into(alone)) gemm_tiles_cpu(g, level);
    const std::vector<Gemm> products = products_into(together);
    gemm_tiles_group_cpu({products.data(), static_cast<int64_t>(products.size())}, level);
    for (size_t i = 0; i < alone.size(); ++i) {
      INFO("product " << i);
      CHECK(alone[i].equal(together[i]));
    }
    CHECK(alone[3].abs().sum().item<double>() == 0);
    CHECK(alone[4].abs().sum().item<double>() > 0);
  }
}

}  // namespace forge::kernel_test
