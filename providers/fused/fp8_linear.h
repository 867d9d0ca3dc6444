#pragma once
// Products with frozen weights in E4M3 (ModuleUse::fp8): rows are quantised into the op's workspace, and multiplied as they are. d x wants a
// weight transposed, which is done ahead of it (weights_ahead.h).
#include "providers/fused/parts.h"

namespace forge::fused {

// y = x Wᵀ + bias of the op's modules in 8 bits; `bias` may be null.
class Fp8Products {
 public:
  // Without any, it does nothing.
  Fp8Products(const FusedRun& r, const Part& x);
  void product(size_t module, const Part& y, const void* bias) const;

 private:
  const FusedRun& r_;
  QuantizeRows rows_;
};

// d x = d y W of one of the op's modules, or added to it. W's scales, which stand along the depth, are multiplied into d y before.
void fp8_input_gradient(const FusedRun& r, size_t module, const Part& d_x, const Part& d_y, bool accumulate);

}  // namespace forge::fused
