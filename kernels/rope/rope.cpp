#include "kernels/rope/rope.h"

#include <ATen/ATen.h>

namespace forge {

at::Tensor rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  int64_t half = cos.size(-1), head_dim = x.size(-1);
  at::Tensor c = cos.unsqueeze(1), s = sin.unsqueeze(1);  // [tokens, 1, half]
  at::Tensor first = x.narrow(-1, 0, half), second = x.narrow(-1, half, half);
  at::Tensor turned_first = first * c - second * s, turned_second = second * c + first * s;
  if (2 * half == head_dim) return at::cat({turned_first, turned_second}, -1);
  return at::cat({turned_first, turned_second, x.narrow(-1, 2 * half, head_dim - 2 * half)}, -1);
}

}  // namespace forge
