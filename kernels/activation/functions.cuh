#pragma once
// Activations and their slopes in device code, of gated MLPs and of those without a gate.
#include "kernels/device/numbers.cuh"

namespace forge {

struct Activated {
  float value, slope;
};

struct Silu {
  __device__ __forceinline__ Activated operator()(float x) const {
    const float s = 1.0f / (1.0f + expf(-x));
    return {x * s, s * (1.0f + x * (1.0f - s))};
  }
};

struct Sigmoid {
  __device__ __forceinline__ Activated operator()(float x) const {
    const float s = 1.0f / (1.0f + expf(-x));
    return {s, s * (1.0f - s)};
  }
};

struct Identity {
  __device__ __forceinline__ Activated operator()(float x) const { return {x, 1.0f}; }
};

// 0.5 x (1 + tanh u), u = √(2/π) (x + 0.044715 x³). Computed as x σ(2 u), since 1 + tanh cancels if
// x is negative.
struct GeluTanh {
  __device__ __forceinline__ Activated operator()(float x) const {
    constexpr float kRoot = 0.7978845608028654f, kCubic = 0.044715f;
    const float s = 1.0f / (1.0f + expf(-2.0f * kRoot * (x + kCubic * x * x * x)));
    const float inner = 2.0f * kRoot * (1.0f + 3.0f * kCubic * x * x);
    // Past |x| = 12, s is 0 or 1 in fp32, and the product of the remaining term with an infinity is
    // NaN.
    const bool curved = fabsf(x) < 12.0f;
    return {x < -12.0f ? 0.0f : x * s, curved ? s + x * s * (1.0f - s) * inner : s};
  }
};

// x Φ(x). Φ is computed by erfc, since 1 + erf cancels if x is negative.
struct Gelu {
  __device__ __forceinline__ Activated operator()(float x) const {
    constexpr float kRootHalf = 0.70710678118654752f, kDensity = 0.3989422804014327f;
    const float phi = 0.5f * erfcf(-kRootHalf * x);
    // Past |x| = 13 the density is 0 in fp32, and its product with an infinity is NaN.
    const float bend = fabsf(x) < 13.0f ? x * (kDensity * expf(-0.5f * x * x)) : 0.0f;
    return {x < -13.0f ? 0.0f : x * phi, phi + bend};
  }
};

// max(x, 0)². NaN stays.
struct SquaredRelu {
  __device__ __forceinline__ Activated operator()(float x) const {
    const float positive = x < 0.0f ? 0.0f : x;
    return {positive * positive, 2.0f * positive};
  }
};

// x between −limit and limit. NaN stays.
struct Clamp {
  float limit;
  __device__ __forceinline__ Activated operator()(float x) const {
    return {x < -limit ? -limit : x > limit ? limit : x, fabsf(x) > limit ? 0.0f : 1.0f};
  }
};

}  // namespace forge
