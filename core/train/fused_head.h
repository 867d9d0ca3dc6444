#pragma once
// The head by kernels/lm_head, which holds no logits: what Network runs where the provider's list asks for it, for objectives
// whose cotangents are known before the head is.
#include <functional>

#include "core/config/job.h"
#include "core/model/step_provider.h"
#include "kernels/device/captures.h"

namespace forge {

struct FusedHead {
  at::Tensor weight;  // [vocab, hidden] of the rows' type
  double softcap = 0;
};

// Writes rows' gradient times `scale` into rows.d_rows and adds the weight's to `weight_grad` (fp32; or undefined). `weights`
// [targets]. → Σ w loss, which waits for the device when it is asked for.
std::function<double()> fused_head_backward(const FusedHead& head, const HeadRows& rows, const std::vector<float>& weights, const ObjectiveConfig& objective,
                                          double scale, const at::Tensor& weight_grad, Captures<LmHead>& captures);

// logp of the targets. fp32 [targets]; undefined where there are none
at::Tensor fused_head_logp(const FusedHead& head, const HeadRows& rows);

}  // namespace forge
