#pragma once
// Products of matrices in LibTorch's memory by whoever multiplies best: on a CPU as kernels/device/cpu_product.h, else LibTorch itself.
#include <ATen/core/Tensor.h>

#include "kernels/common/element.h"

namespace forge {

// x in fp32, bf16 or fp16.
Element element_of(const at::Tensor& x);

// out = a · b, or out += a · b. [m, n], [m, k], [k, n] of one type, or `out` in fp32 where sums_in_fp32; rows or columns of each lie without gaps.
void multiply(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool add = false);
// Whether sums of products of x may go into fp32 without a matrix of x's type between.
bool sums_in_fp32(const at::Tensor& x);

}  // namespace forge
