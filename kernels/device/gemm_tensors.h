#pragma once
// Returns a Gemm's operands, or those of a batch, as tensors that borrow the operands' memory, on
// either device.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "kernels/device/gemm.h"

namespace forge {

inline c10::ScalarType scalar_of(Element type) {
  return type == Element::f32 ? at::kFloat : type == Element::bf16 ? at::kBFloat16 : at::kHalf;
}

struct GemmTensors {
  at::Tensor a, b, c, out;
};

inline GemmTensors tensors_of(const Gemm& g, c10::DeviceType device) {
  auto view = [&](const void* data, int64_t rows, int64_t columns, int64_t stride, Element type) {
    return at::from_blob(const_cast<void*>(data), {rows, columns}, {stride, 1},
                         at::TensorOptions(device).dtype(scalar_of(type)));
  };
  auto operand = [&](const GemmOperand& x, int64_t rows, int64_t columns) {
    return x.transposed ? view(x.data, columns, rows, x.stride, g.type).t()
                        : view(x.data, rows, columns, x.stride, g.type);
  };
  const at::Tensor out = view(g.out, g.m, g.n, g.out_stride, g.out_type);
  return {operand(g.a, g.m, g.k), operand(g.b, g.k, g.n), g.c ? view(g.c, g.m, g.n, g.c_stride, g.out_type) : out, out};
}

// Returns all products of a batch, as matrices [batch, rows, columns].
inline GemmTensors batch_of(const Gemm& g, c10::DeviceType device) {
  const GemmTensors first = tensors_of(g, device);
  const auto all = [&](const at::Tensor& x, int64_t step) {
    return at::from_blob(x.data_ptr(), {g.batch, x.size(0), x.size(1)}, {step, x.stride(0), x.stride(1)}, x.options());
  };
  const at::Tensor out = all(first.out, g.out_step);
  return {all(first.a, g.a_step), all(first.b, g.b_step), out, out};
}

}  // namespace forge
