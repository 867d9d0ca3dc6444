#pragma once
// The update of the flat trainable buffers on a GPU; formulas and contracts as in optimizer_args.h. Two
// launches a step: the norm, and one update over all ranges of settings.
#include "kernels/device/launch.h"
#include "kernels/optimizer/optimizer_args.h"

namespace forge {

// Neighbouring weights with the same settings: `end` of one is the begin of the next, the last ends at count.
struct UpdateRange {
  int64_t end = 0;
  float rate_factor = 1;  // multiplies lr
  float weight_decay = 0;
};

// FlatNorm::workspace has this many bytes. The result does not depend on timing.
int64_t gradient_norm_cuda_workspace(const FlatNorm& args);
void gradient_norm_cuda(const FlatNorm& args, CudaStream stream);

// `ranges`, in device memory, replace lr's factor and weight_decay; null: the whole buffer has those of the
// arguments.
void adamw_cuda(const AdamWUpdate& args, const UpdateRange* ranges, CudaStream stream);
void lion_cuda(const LionUpdate& args, const UpdateRange* ranges, CudaStream stream);
void adamw_8bit_cuda(const AdamW8bitUpdate& args, const UpdateRange* ranges, CudaStream stream);

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
