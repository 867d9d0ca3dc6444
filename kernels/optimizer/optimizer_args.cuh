#pragma once
// What the update kernels share: the step's numbers and the settings of an element.
#include "kernels/device/reduce.cuh"

namespace forge {

#ifdef __CUDACC_RTC__  // the twins of optimizer_cuda.h, whose host headers NVRTC has not
struct UpdateRange {
  int64_t end;
  float rate_factor, weight_decay;
};
struct UpdateScalars {
  float learning_rate, grad_scale, max_norm, correction1, correction2;
};
constexpr int64_t kNormBlocks = 1024;
#endif

struct UpdateArgs {
  Global<const float> grad;
  Global<float> master, m, v;
  Global<const UpdateRange> ranges;
  Global<const UpdateScalars> scalars;
  Global<const float> norm;
  int64_t count;
  float beta1, beta2, eps;
};

__device__ __forceinline__ bool is_finite(float x) { return x - x == 0; }

// What multiplies every gradient; `skip` when the norm is not finite.
struct StepScale {
  float grad;
  bool skip;
};

__device__ __forceinline__ StepScale step_scale(float norm, const UpdateScalars& s) {
  const float scaled = norm * s.grad_scale;
  float clip = 1;
  if (s.max_norm > 0) clip = fminf(1.0f, s.max_norm / (scaled + 1e-6f));
  return {s.grad_scale * clip, !is_finite(scaled)};
}

// Walks the ranges as the index grows.
struct RangeCursor {
  int range = 0;
  UpdateRange current;
  __device__ __forceinline__ explicit RangeCursor(const UpdateArgs& a) : current(a.ranges[0]) {}
  __device__ __forceinline__ const UpdateRange& at(const UpdateArgs& a, int64_t i) {
    while (i >= current.end) current = a.ranges[++range];
    return current;
  }
};

}  // namespace forge
