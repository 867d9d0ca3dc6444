#include "kernels/product/multiply.h"

#include <ATen/ATen.h>

#include "kernels/device/cpu_product.h"
#include "kernels/product/gemm_tiles.h"

namespace forge {
namespace {

GemmOperand operand(const at::Tensor& x) {
  const bool across = x.stride(1) != 1 || (x.size(1) == 1 && x.stride(0) == 1);
  return {x.const_data_ptr(), x.stride(across ? 1 : 0), across};
}

}  // namespace

Element element_of(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat ? Element::f32 : x.scalar_type() == at::kBFloat16 ? Element::bf16 : Element::f16;
}

bool sums_in_fp32(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat || (x.is_cpu() && gemm_tiles_pay(element_of(x)));
}

void multiply(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool add) {
  if (!out.is_cpu() || !sums_in_fp32(a)) {
    at::Tensor to = out;
    at::addmm_out(to, to, a, b, add ? 1 : 0, 1);
    return;
  }
  product_cpu({.type = element_of(a),
               .m = a.size(0),
               .n = b.size(1),
               .k = a.size(1),
               .a = operand(a),
               .b = operand(b),
               .out_type = element_of(out),
               .out = out.data_ptr(),
               .out_stride = out.stride(0),
               .add = add});
}

}  // namespace forge
