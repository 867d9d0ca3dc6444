#pragma once
// The update of a flat buffer of trainable weights: norm of the gradient, clipping and loss
// scaling, AdamW, Lion, AdamW with 8-bit state, and the loss scale of fp16 training. A step makes
// two calls (one norm, one update) and reads nothing back between them: the norm leaves its verdict
// in memory and the update obeys it.
//
//   norm   = ‖grad‖₂ · unscale
//   scale  = unscale · min(1, max_norm / (norm + 1e-6))     max_norm ≤ 0: unscale
//   finite = 0 when a gradient is infinite or NaN, else 1   0: the update changes nothing
//
// where unscale is 1 / (loss scale · all other factors of the gradients). With g = grad · scale,
// AdamW (Loshchilov & Hutter, 2019) is
//
//   p ← p (1 − lr λ)
//   m ← m + (1 − β₁)(g − m)
//   v ← β₂ v + (1 − β₂) g²
//   p ← p − lr / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + ε)
//
// and Lion (Chen et al., 2023), after the same decay,
//
//   p ← p − lr · sign(β₁ m + (1 − β₁) g)
//   m ← β₂ m + (1 − β₂) g
//
// 8-bit state (Dettmers et al., 2022) is in blocks of 256 values,
//
//   m = map[code] · absmax of its block
//
// with a signed map of 256 ascending values for m and an unsigned one for v. After the update each
// block is given its new absmax and the nearest codes.
//
// The numbers that change from step to step (unscale and UpdateNumbers) are in the device's memory,
// so that captured calls read the numbers of their own step.
//
// Settings are double, since 1 − β in fp32 would be off by a hundred units; state and arithmetic
// are fp32; `copy`, if given, is the weight rounded to the type that the forward computes with.
// Bytes an element: norm 4; AdamW 28 (read p, g, m, v; write p, m, v) + the copy; Lion 20; 8-bit
// 16.
#include <cmath>
#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/cpu/level.h"
#include "kernels/device/launch.h"

namespace forge {

struct FlatNorm {
  int64_t count = 0;
  const float* grad = nullptr;
  const float* unscale = nullptr;  // [1]
  float max_norm = 0;
  float* verdict = nullptr;  // [3]: norm, scale, finite
  void* workspace = nullptr;

  bool operator==(const FlatNorm&) const = default;
};

// Numbers of one update; Lion reads lr alone.
struct UpdateNumbers {
  float lr = 0, rate = 0, root = 1;  // rate: lr / (1 − β₁ᵗ); root: 1 / √(1 − β₂ᵗ)
};
inline UpdateNumbers update_numbers(double lr, double beta1, double beta2, int64_t step) {
  const auto t = static_cast<double>(step);
  return {static_cast<float>(lr), static_cast<float>(lr / (1 - std::pow(beta1, t))),
          static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, t)))};
}

// Neighbouring weights with the same settings, such as norms without decay: `end` of one is the
// begin of the next, the last ends at count.
struct UpdateRanges {
  const int64_t* end = nullptr;         // null: the whole buffer has the numbers' lr and the arguments' weight_decay
  const float* rate_factor = nullptr;   // multiplies lr
  const float* weight_decay = nullptr;  // in the place of the arguments'
};

struct AdamWUpdate {
  int64_t count = 0;
  float* weight = nullptr;
  const float* grad = nullptr;
  float *mean = nullptr, *square = nullptr;  // m, v
  Element copy_type = Element::bf16;
  void* copy = nullptr;            // or null
  const float* verdict = nullptr;  // of FlatNorm
  const UpdateNumbers* numbers = nullptr;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  UpdateRanges ranges;
};

struct LionUpdate {
  int64_t count = 0;
  float* weight = nullptr;
  const float* grad = nullptr;
  float* mean = nullptr;
  Element copy_type = Element::bf16;
  void* copy = nullptr;
  const float* verdict = nullptr;
  const UpdateNumbers* numbers = nullptr;
  double beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
  UpdateRanges ranges;
};

constexpr int64_t kStateBlock = 256;

struct AdamW8bitUpdate {
  int64_t count = 0;
  float* weight = nullptr;
  const float* grad = nullptr;
  uint8_t *mean = nullptr, *square = nullptr;                  // codes
  float *mean_absmax = nullptr, *square_absmax = nullptr;      // [ceil(count / 256)]
  const float *signed_map = nullptr, *unsigned_map = nullptr;  // state_map's
  Element copy_type = Element::bf16;
  void* copy = nullptr;
  const float* verdict = nullptr;
  const UpdateNumbers* numbers = nullptr;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  UpdateRanges ranges;
};

constexpr int64_t kNormBlock = 1 << 16;  // gradients with a partial sum of their own, added in order: threads change nothing
inline int64_t gradient_norm_cpu_workspace(const FlatNorm& args) {
  return 8 * ((args.count + kNormBlock - 1) / kNormBlock) + 8;
}
void gradient_norm_cpu(const FlatNorm& args, CpuLevel level = cpu_level());
void adamw_cpu(const AdamWUpdate& args, CpuLevel level = cpu_level());
void lion_cpu(const LionUpdate& args, CpuLevel level = cpu_level());
void adamw_8bit_cpu(const AdamW8bitUpdate& args, CpuLevel level = cpu_level());

// Returns bitsandbytes' maps for the state: [256] values for signed_map or unsigned_map.
const float* state_map(bool with_sign);

// ---- on a GPU
//
// Every pointer is in device memory. Two launches a step: the norm, and one update over all ranges
// of settings.

// Number of blocks that leave a partial sum each: enough to fill any GPU.
constexpr int64_t kNormBlocks = 1024;
// FlatNorm::workspace has this many bytes. The result does not depend on timing.
inline int64_t gradient_norm_cuda_workspace(const FlatNorm&) { return (kNormBlocks + 1) * 8; }
void gradient_norm_cuda(const FlatNorm& args, CudaStream stream);
void adamw_cuda(const AdamWUpdate& args, CudaStream stream);
void lion_cuda(const LionUpdate& args, CudaStream stream);
void adamw_8bit_cuda(const AdamW8bitUpdate& args, CudaStream stream);

}  // namespace forge
