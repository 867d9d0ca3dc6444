#pragma once
// The formulas of lm_head_args.h in float64, shared by the cases of the head and those of its
// logits kernel. A Setting has temperature, softcap, smoothing and z_loss.
#include <ATen/ATen.h>

#include "tests/kernels/case.h"

namespace forge::kernel_test {

inline constexpr const char* kHeadNumbers[] = {"logp", "logsumexp", "mean_logit", "entropy", "loss"};

// Returns z of raw logits [positions, vocab].
template <class Setting>
at::Tensor scaled_logits(at::Tensor raw, const Setting& s) {
  if (s.softcap != 0) raw = at::tanh(raw / s.softcap) * s.softcap;
  return raw / s.temperature;
}

// Returns the numbers of lm_head_args.h [positions] for z. A logit of −∞ contributes nothing to the
// entropy.
template <class Setting>
Tensors head_numbers(const at::Tensor& z, const at::Tensor& targets, const Setting& s) {
  at::Tensor lse = at::logsumexp(z, {1}), p = at::softmax(z, 1), mean = z.mean(1);
  at::Tensor logp = z.gather(1, targets.unsqueeze(1)).squeeze(1) - lse;
  return {{"logp", logp},
          {"logsumexp", lse},
          {"mean_logit", mean},
          {"entropy", lse - (p * z.masked_fill(z.eq(-HUGE_VAL), 0)).sum(1)},
          {"loss", (s.smoothing - 1) * logp - s.smoothing * (mean - lse) + s.z_loss * lse.square()}};
}

}  // namespace forge::kernel_test
