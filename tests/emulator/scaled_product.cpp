// The emulator's product in 8 bits: plain loops in fp64 on host memory.
#include <cstring>
#include <vector>

#include "kernels/fp8/e4m3_rows.h"
#include "kernels/fp8/fp8_args.h"
#include "tests/emulator/grid.h"

namespace forge {
namespace {

std::vector<double> values_of(const uint8_t* codes, int64_t rows, int64_t columns, int64_t stride) {
  emulator::touch("scaled_product", codes, rows, columns, stride, /*writes=*/false);
  std::vector<double> values(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) values[static_cast<size_t>(i * columns + j)] = e4m3_book()[codes[i * stride + j]];
  return values;
}

// Touches one row without gaps.
void touch_row(const void* data, int64_t bytes, bool writes = false) { emulator::touch("scaled_product", data, 1, bytes, bytes, writes); }

void multiply(const ScaledProduct& p) {
  const std::vector<double> a = values_of(p.a, p.m, p.k, p.a_stride), b = values_of(p.b, p.n, p.k, p.k);
  touch_row(p.a_scales, 4 * p.m), touch_row(p.b_scales, 4 * p.n);
  const int64_t bytes = bytes_of(p.type);
  if (p.bias) touch_row(p.bias, bytes * p.n);
  emulator::touch("scaled_product", p.out, p.m, bytes * p.n, bytes * p.out_stride, /*writes=*/true);
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < p.k; ++l) sum += a[static_cast<size_t>(i * p.k + l)] * b[static_cast<size_t>(j * p.k + l)];
      sum *= static_cast<double>(p.a_scales[i]) * static_cast<double>(p.b_scales[j]);
      if (p.bias) sum += to_float(static_cast<const Bf16*>(p.bias)[j]);
      const int64_t at = i * p.out_stride + j;
      if (p.type == Element::f32)
        static_cast<float*>(p.out)[at] = static_cast<float>(sum);
      else
        from_float(static_cast<float>(sum), static_cast<Bf16*>(p.out)[at]);
    }
}

}  // namespace

void device_scaled_product(const ScaledProduct& p, CudaStream stream) {
  emulator::queue("scaled_product", stream, [=] { multiply(p); });
}

}  // namespace forge
