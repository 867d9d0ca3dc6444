#include "kernels/product/multiply.h"

#include <ATen/ATen.h>

#include "kernels/device/cpu_product.h"

namespace forge {
namespace {

GemmOperand operand(const at::Tensor& x) {
  const bool across = x.stride(1) != 1 || (x.size(1) == 1 && x.stride(0) == 1);
  return {x.const_data_ptr(), x.stride(across ? 1 : 0), across};
}

}  // namespace

void multiply(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool add) {
  if (!out.is_cpu() || out.scalar_type() != at::kFloat) {
    at::Tensor to = out;
    at::addmm_out(to, to, a, b, add ? 1 : 0, 1);
    return;
  }
  product_cpu({.m = a.size(0),
               .n = b.size(1),
               .k = a.size(1),
               .a = operand(a),
               .b = operand(b),
               .out = out.data_ptr(),
               .out_stride = out.stride(0),
               .add = add});
}

}  // namespace forge
