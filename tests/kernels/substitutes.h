#pragma once
// Substitutes for ops that a backend does not have, from ops and loops that it has.
#include <ATen/ATen.h>

#include <algorithm>
#include <string>

#include "kernels/device/gemm_tensors.h"
#include "kernels/lm_head/lm_head_args.h"
#include "kernels/lm_head/logits_args.h"
#include "kernels/quantize/blocks.h"
#include "kernels/quantize/quantize_args.h"

namespace forge::kernel_test {

// A chunk of logits as a head: its hidden states are the logits and its weight is a unit matrix,
// whose products are exact. A product with −∞ is not, so it is replaced by a finite logit without
// effect.
class LogitsAsHead {
 public:
  explicit LogitsAsHead(const LogitsChunk& c) {
    const c10::ScalarType type = scalar_of(c.type);
    at::Tensor logits = at::from_blob(c.logits, {c.positions, c.vocab}, {c.stride, 1}, type);
    hidden_ = logits.masked_fill(logits.eq(-HUGE_VAL), -6e4);
    unit_ = at::eye(c.vocab, type);
    head = {c.type,
            c.positions,
            c.vocab,
            c.vocab,
            hidden_.const_data_ptr(),
            c.vocab,
            unit_.const_data_ptr(),
            c.vocab,
            c.targets,
            c.temperature,
            c.softcap};
    head.logp = c.logp, head.logsumexp = c.logsumexp, head.mean_logit = c.mean_logit;
    head.entropy = c.entropy, head.loss = c.loss;
    head.loss_weight = c.loss_weight, head.g_logp = c.g_logp, head.g_logsumexp = c.g_logsumexp;
    head.g_mean_logit = c.g_mean_logit, head.g_entropy = c.g_entropy;
    head.label_smoothing = c.label_smoothing, head.z_loss = c.z_loss;
    if (c.gradient) head.d_hidden = c.logits, head.d_hidden_stride = c.stride;
  }
  static std::string refusal(const LogitsChunk& c) {
    return c.vocab <= 2048 ? ""
                           : "it has no logits kernel, and a unit matrix of this vocabulary is too large";
  }

  LmHead head;

 private:
  at::Tensor hidden_, unit_;
};

// True if limits or a book are nf4's; else they are fp4's.
inline bool is_nf4(const QuantizeBlocks& a) {
  return std::equal(a.limits, a.limits + 15, four_bit_limits(nf4_book()).limits.begin());
}
inline bool is_nf4(const DequantizeBlocks& a) { return std::equal(a.book, a.book + 16, nf4_book().begin()); }

}  // namespace forge::kernel_test
