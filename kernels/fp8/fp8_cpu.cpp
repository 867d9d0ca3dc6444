// Plain loops: a CPU has no 8-bit products, and this is the twin by which a GPU's are proven. Codes
// are exact in bf16, so that forge's tiles multiply them and add them up in fp32.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/lib/base/error.h"
#include "kernels/common/typed.h"
#include "kernels/cpu/parallel.h"
#include "kernels/fp8/e4m3_rows.h"
#include "kernels/fp8/fp8_args.h"
#include "kernels/product/gemm_tiles.h"

namespace forge {
namespace {

constexpr int64_t kRowsPerTask = 16;
constexpr int64_t kSquare = 64;          // bytes a side, which stay in the first-level cache

template <class T>
void quantize_row(const QuantizeRows& a, int64_t row, std::vector<float>& values) {
  const T* x = static_cast<const T*>(a.x) + row * a.x_stride;
  for (int64_t j = 0; j < a.columns; ++j) {
    const float value = to_float(x[j]);
    values[static_cast<size_t>(j)] = a.factors ? value * a.factors[j] : value;
  }
  a.scales[row] = quantize_e4m3(values.data(), a.columns, a.codes + row * a.codes_stride);
}

std::array<Bf16, 256> make_narrow_book() {
  std::array<Bf16, 256> book;
  for (size_t i = 0; i < book.size(); ++i) from_float(e4m3_book()[i], book[i]);
  return book;
}

// [rows, columns] without gaps
void decode(const uint8_t* codes, int64_t rows, int64_t columns, int64_t stride, Bf16* out) {
  static const std::array<Bf16, 256> book = make_narrow_book();
  parallel_ranges(rows, kRowsPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = 0; j < columns; ++j) out[i * columns + j] = book[codes[i * stride + j]];
  });
}

// Columns [first, first + count) of the result.
template <class T>
void finish(const ScaledProduct& a, const float* sums, int64_t first, int64_t count) {
  parallel_ranges(a.m, kRowsPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T* out = static_cast<T*>(a.out) + i * a.out_stride + first;
      for (int64_t j = 0; j < count; ++j) {
        float y = sums[i * count + j] * a.a_scales[i] * a.b_scales[first + j];
        if (a.bias) y += to_float(static_cast<const T*>(a.bias)[first + j]);
        T rounded;
        from_float(y, rounded);
        if (a.add) from_float(to_float(out[j]) + to_float(rounded), rounded);
        out[j] = rounded;
      }
    }
  });
}

}  // namespace

void quantize_rows_cpu(const QuantizeRows& a) {
  of_type(a.type, [&](auto zero) {
    parallel_ranges(a.rows, kRowsPerTask, [&](int64_t begin, int64_t end) {
      std::vector<float> values(static_cast<size_t>(a.columns));
      for (int64_t row = begin; row < end; ++row) quantize_row<decltype(zero)>(a, row, values);
    });
  });
}

void scaled_product_cpu(const ScaledProduct& a, CpuLevel level) {
  FORGE_CHECK(!a.bias || !a.add, "a product in 8 bits with a bias that is added");
  const int64_t columns = std::min(a.n, kScaledColumns);
  auto* x = static_cast<Bf16*>(a.workspace);
  auto* w = reinterpret_cast<Bf16*>(static_cast<char*>(a.workspace) + whole_lines(2 * a.m * a.k));
  auto* sums = reinterpret_cast<float*>(reinterpret_cast<char*>(w) + whole_lines(2 * columns * a.k));
  decode(a.a, a.m, a.k, a.a_stride, x);
  for (int64_t first = 0; first < a.n; first += columns) {
    const int64_t count = std::min(columns, a.n - first);
    decode(a.b + first * a.k, count, a.k, a.k, w);
    gemm_tiles_cpu({.type = Element::bf16, .m = a.m, .n = count, .k = a.k, .a = {x, a.k}, .b = {w, a.k, /*transposed=*/true}, .out_type = Element::f32,
                    .out = sums, .out_stride = count}, level);
    of_type(a.type, [&](auto zero) { finish<decltype(zero)>(a, sums, first, count); });
  }
}

void transpose_bytes_cpu(const TransposeBytes& a) {
  parallel_ranges(a.columns, kSquare, [&](int64_t begin, int64_t end) {
    for (int64_t top = 0; top < a.rows; top += kSquare)
      for (int64_t j = begin; j < end; ++j)
        for (int64_t i = top; i < std::min(top + kSquare, a.rows); ++i) a.y[j * a.rows + i] = a.x[i * a.columns + j];
  });
}

}  // namespace forge
