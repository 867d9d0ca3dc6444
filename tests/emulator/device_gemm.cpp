// The emulator's product: plain loops in fp64 on host memory.
#include "kernels/device/gemm.h"

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

double value_of(Element type, const GemmOperand& x, int64_t row, int64_t column) {
  return value_of(type, x.data, x.transposed ? column * x.stride + row : row * x.stride + column);
}

}  // namespace

void device_gemm(const Gemm& g, CudaStream stream) {
  emulator::check_stream("product", stream);
  for (int64_t i = 0; i < g.m; ++i)
    for (int64_t j = 0; j < g.n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < g.k; ++l) sum += value_of(g.type, g.a, i, l) * value_of(g.type, g.b, l, j);
      const int64_t at = i * g.out_stride + j;
      store(g.out_type, g.out, at, g.alpha * sum + (g.add ? value_of(g.out_type, g.out, at) : 0));
    }
}

}  // namespace forge
