#pragma once
// Products with frozen weights in E4M3 (ModuleUse::fp8): rows are quantised into the op's workspace
// and multiplied in E4M3. d x needs a transposed weight; the transposition runs ahead
// (weights_ahead.h).
#include "providers/fused/parts.h"

namespace forge::fused {

// Computes y = x Wᵀ + bias of the op's modules in 8 bits; `bias` may be null.
class Fp8Products {
 public:
  // Quantises x. Does nothing if the op has no modules in E4M3.
  Fp8Products(const FusedRun& r, const Part& x);
  void product(size_t module, const Part& y, const void* bias) const;

 private:
  const FusedRun& r_;
  QuantizeRows rows_;
};

// Computes d x = d y W of one of the op's modules, or adds it. W's scales, which are along the
// depth, are multiplied into d y before.
void fp8_input_gradient(const FusedRun& r, size_t module, const Part& d_x, const Part& d_y, bool accumulate);

}  // namespace forge::fused
