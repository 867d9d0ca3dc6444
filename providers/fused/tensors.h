#pragma once
// Between LibTorch's tensors and the kernels' plain memory.
#include <ATen/ATen.h>

#include "core/base/error.h"
#include "kernels/common/element.h"

namespace forge {

inline Element element_of(const at::Tensor& x) {
  switch (x.scalar_type()) {
    case at::kFloat:
      return Element::f32;
    case at::kBFloat16:
      return Element::bf16;
    case at::kHalf:
      return Element::f16;
    default:
      FORGE_CHECK(false, "no kernel computes in " << x.scalar_type());
  }
}

inline at::Tensor scratch(int64_t bytes) { return at::empty({bytes}, at::kByte); }

}  // namespace forge
