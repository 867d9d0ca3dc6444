#pragma once
// The update of the flat trainable buffers on a GPU: gradient norm, then clip + update + cast, two launches
// in all. Everything that changes from step to step lies in device memory, so that one captured graph serves
// every step.
//
//   g' = grad · grad_scale · min(1, max_norm / (‖grad‖ · grad_scale + 1e-6))         max_norm 0: not clipped
//   AdamW (Loshchilov & Hutter, 2019):  p −= lr λ p;  m = β₁ m + (1 − β₁) g';  v = β₂ v + (1 − β₂) g'²
//                                       p −= lr / c₁ · m / (√(v / c₂) + eps),  c = 1 − βᵗ
//   Lion (Chen et al., 2023):           p −= lr λ p + lr sign(β₁ m + (1 − β₁) g');  m = β₂ m + (1 − β₂) g'
//
// lr is learning_rate times the range's factor, λ the range's decay. A norm that is not finite skips the
// whole update. Bytes a parameter: norm 4; AdamW 28 and the cast's 2; Lion 20 and 2; AdamW with 8-bit states
// 16 and 2.
#include "kernels/common/element.h"
#include "kernels/device/launch.h"

namespace forge {

// Neighbouring parameters with the same settings; `end` of one is the begin of the next.
struct UpdateRange {
  int64_t end = 0;
  float rate_factor = 1, weight_decay = 0;
};

// In device memory, written by the host before a step.
struct UpdateScalars {
  float learning_rate = 0, grad_scale = 1, max_norm = 0;
  float correction1 = 1, correction2 = 1;  // 1 − β₁ᵗ, 1 − β₂ᵗ
};

constexpr int64_t kNormBlocks = 1024;  // doubles of scratch that the norm needs

struct GradientNorm {
  const float* grad = nullptr;
  int64_t count = 0;
  double* partial = nullptr;     // [kNormBlocks] scratch
  uint32_t* finished = nullptr;  // one counter, zero before and after
  float* norm = nullptr;         // ‖grad‖₂ before grad_scale; infinite or NaN when a gradient is
};
void gradient_norm_cuda(const GradientNorm& args, CudaStream stream);

struct FlatUpdate {
  int64_t count = 0;
  const float* grad = nullptr;
  float* master = nullptr;
  float* m = nullptr;
  float* v = nullptr;  // AdamW
  Element cast_type = Element::bf16;
  void* cast = nullptr;                    // [count] copy of the new parameters in cast_type, or null
  const UpdateRange* ranges = nullptr;     // device memory, ascending, the last ends at count
  const UpdateScalars* scalars = nullptr;  // device memory
  const float* norm = nullptr;             // device memory, of gradient_norm_cuda
  float beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f;
};
void adamw_cuda(const FlatUpdate& args, CudaStream stream);
void lion_cuda(const FlatUpdate& args, CudaStream stream);

// AdamW whose states are codes of 256-entry maps with an absmax a block of 256 (Dettmers et al., 2022), as
// bitsandbytes computes it: decay after the step, and m keeps its sign through the rounding.
struct FlatUpdate8bit {
  FlatUpdate update;  // its m and v are not used
  uint8_t *m_codes = nullptr, *v_codes = nullptr;
  float *m_absmax = nullptr, *v_absmax = nullptr;  // [ceil(count / 256)]
  const float *m_book = nullptr,
              *v_book = nullptr;  // [256] ascending: the signed and the unsigned dynamic map
};
void adamw_8bit_cuda(const FlatUpdate8bit& args, CudaStream stream);

// Dynamic loss scale of fp16 training; all three in device memory.
struct LossScale {
  float* scale = nullptr;
  int32_t* good_steps = nullptr;
  int32_t* found_inf = nullptr;  // set by unscale_cuda, cleared by update_loss_scale_cuda
};
// grad /= scale, and found_inf = 1 when a gradient is not finite. Bytes: 8 an element.
void unscale_cuda(float* grad, int64_t count, const LossScale& scale, CudaStream stream);
// Halves the scale after a bad step, doubles it after `interval` good ones in a row.
void update_loss_scale_cuda(const LossScale& scale, int32_t interval, CudaStream stream);

}  // namespace forge
