#pragma once
// Products of matrices in LibTorch's memory by the fastest library: on a CPU as in
// kernels/device/cpu_product.h, otherwise LibTorch itself.
#include <ATen/core/Tensor.h>

#include "kernels/common/element.h"

namespace forge {

// Returns the type of x, which is fp32, bf16 or fp16.
Element element_of(const at::Tensor& x);

// Computes out = a · b, or out += a · b. out [m, n], a [m, k] and b [k, n] are of one type, or
// `out` is in fp32 if sums_in_fp32(). The rows or the columns of each have no gaps.
void multiply(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool add = false);
// True if sums of products of x may go into fp32 without a matrix of x's type in between.
bool sums_in_fp32(const at::Tensor& x);

}  // namespace forge
