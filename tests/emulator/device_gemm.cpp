// The emulator's product: plain loops in fp64 on host memory.
#include "kernels/device/gemm.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/emulator/grid.h"

namespace forge {
namespace {

double value_of(Element type, const void* data, int64_t index) {
  if (type == Element::f32) return static_cast<const float*>(data)[index];
  return type == Element::bf16 ? to_float(static_cast<const Bf16*>(data)[index])
                               : to_float(static_cast<const F16*>(data)[index]);
}

void store(Element type, void* data, int64_t index, double value) {
  const float narrow = static_cast<float>(value);
  if (type == Element::f32)
    static_cast<float*>(data)[index] = narrow;
  else if (type == Element::bf16)
    from_float(narrow, static_cast<Bf16*>(data)[index]);
  else
    from_float(narrow, static_cast<F16*>(data)[index]);
}

// Returns a matrix [rows, columns] in fp64, as it enters the product.
std::vector<double> values_of(Element type, const GemmOperand& x, int64_t rows, int64_t columns) {
  const int64_t lying_rows = x.transposed ? columns : rows, lying = x.transposed ? rows : columns;
  emulator::touch("product", x.data, lying_rows, lying * bytes_of(type), x.stride * bytes_of(type), /*writes=*/false);
  std::vector<double> values(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      values[static_cast<size_t>(i * columns + j)] = value_of(type, x.data, x.transposed ? j * x.stride + i : i * x.stride + j);
  return values;
}

void multiply(const Gemm& g) {
  const std::vector<double> a = values_of(g.type, g.a, g.m, g.k), b = values_of(g.type, g.b, g.k, g.n);
  const int64_t bytes = bytes_of(g.out_type), row_bytes = g.n * bytes;
  const void* added = g.c ? g.c : g.out;
  const int64_t added_stride = g.c ? g.c_stride : g.out_stride;
  if (g.add) emulator::touch("product", added, g.m, row_bytes, added_stride * bytes, /*writes=*/false);
  emulator::touch("product", g.out, g.m, row_bytes, g.out_stride * bytes, /*writes=*/true);
  // The workspace is filled with NaN, so that a value kept there is noticed.
  if (const int64_t space = device_gemm_workspace(g); space > 0) {
    emulator::touch("product", g.workspace, 1, space, space, /*writes=*/true);
    std::memset(g.workspace, 0xff, static_cast<size_t>(space));
  }
  std::vector<double> sums(static_cast<size_t>(g.n));
  for (int64_t i = 0; i < g.m; ++i) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t l = 0; l < g.k; ++l) {
      const double factor = a[static_cast<size_t>(i * g.k + l)];
      const double* row = b.data() + l * g.n;
      for (int64_t j = 0; j < g.n; ++j) sums[static_cast<size_t>(j)] += factor * row[j];
    }
    for (int64_t j = 0; j < g.n; ++j) {
      const double more = g.add ? value_of(g.out_type, added, i * added_stride + j) : 0;
      store(g.out_type, g.out, i * g.out_stride + j, g.alpha * sums[static_cast<size_t>(j)] + more);
    }
  }
}

}  // namespace

void device_gemm(const Gemm& g, CudaStream stream) {
  emulator::queue("product", stream, [=] {
    for (int64_t i = 0; i < g.batch; ++i) multiply(g.one(i));
  });
}

}  // namespace forge
