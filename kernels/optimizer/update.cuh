#pragma once
// Code that the update kernels share: the step's numbers, and the settings of an element.
// Operations are rounded one by one where a fused multiply-add could move an 8-bit code.
#include "kernels/device/reduce.cuh"

namespace forge {

struct RangesOnDevice {
  Global<const int64_t> end;
  Global<const float> rate_factor, weight_decay;
};

// Settings are narrowed by the launcher: 1 − β in fp32 would be off by a hundred units.
struct UpdateRates {
  float lr, rate, decay;  // lr / correction₁; 1 − lr λ, from the launcher λ
  float beta1, one_beta1, beta2, one_beta2;
  float root, eps;  // 1 / √correction₂
};

struct UpdateArgs {
  Global<const float> grad;
  Global<float> weight, mean, square;
  RangesOnDevice ranges;
  Global<const float> verdict;  // norm, scale, finite
  Global<const float> numbers;  // of the update: lr, rate, root
  int64_t count;
  UpdateRates rates;
};

__device__ __forceinline__ bool is_finite(float x) { return x - x == 0; }

// The rates of an element; walks the ranges as the index grows. Without `Kept` the step's numbers
// are read again when a range begins, which saves registers that a kernel of 8-bit states does not
// have.
template <bool Kept>
class RatesCursor {
 public:
  __device__ __forceinline__ explicit RatesCursor(const UpdateArgs& a) : lr_(a.numbers[0]), rate_(a.numbers[1]), rates_(a.rates) {
    rates_.root = a.numbers[2];
    if (a.ranges.end != nullptr)
      take(a, 0);
    else
      set(a, 1, a.rates.decay);
  }
  __device__ __forceinline__ const UpdateRates& at(const UpdateArgs& a, int64_t i) {
    while (i >= end_) take(a, range_ + 1);
    return rates_;
  }

 private:
  __device__ __forceinline__ void take(const UpdateArgs& a, int range) {
    range_ = range;
    end_ = a.ranges.end[range];
    set(a, a.ranges.rate_factor[range], a.ranges.weight_decay[range]);
  }
  __device__ __forceinline__ void set(const UpdateArgs& a, float factor, float weight_decay) {
    rates_.lr = (Kept ? lr_ : a.numbers[0]) * factor;
    rates_.rate = (Kept ? rate_ : a.numbers[1]) * factor;
    rates_.decay = 1 - rates_.lr * weight_decay;
  }
  float lr_, rate_;
  UpdateRates rates_;
  int range_ = 0;
  int64_t end_ = 0x7FFFFFFFFFFFFFFF;
};

// Returns p after AdamW's step.
__device__ __forceinline__ float stepped(const UpdateRates& r, float weight, float mean, float square) {
  return weight * r.decay - r.rate * mean / (__fsqrt_rn(square) * r.root + r.eps);
}

}  // namespace forge
