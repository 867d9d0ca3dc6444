#include "kernels/rope/rope.h"

#include <ATen/ATen.h>

namespace forge {

at::Tensor rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, RopeLayout layout) {
  int64_t half = cos.size(-1), head_dim = x.size(-1);
  at::Tensor c = cos.unsqueeze(1), s = sin.unsqueeze(1);  // [tokens, 1, half]
  if (layout == RopeLayout::interleaved) {
    const at::Tensor pairs = x.narrow(-1, 0, 2 * half).unflatten(-1, {half, 2});  // [tokens, heads, half, 2]
    const at::Tensor a = pairs.select(-1, 0), b = pairs.select(-1, 1);
    const at::Tensor turned = at::stack({a * c - b * s, b * c + a * s}, -1).flatten(-2);
    return 2 * half == head_dim ? turned : at::cat({turned, x.narrow(-1, 2 * half, head_dim - 2 * half)}, -1);
  }
  at::Tensor first = x.narrow(-1, 0, half), second = x.narrow(-1, half, half);
  at::Tensor turned_first = first * c - second * s, turned_second = second * c + first * s;
  if (2 * half == head_dim) return at::cat({turned_first, turned_second}, -1);
  return at::cat({turned_first, turned_second, x.narrow(-1, 2 * half, head_dim - 2 * half)}, -1);
}

}  // namespace forge
