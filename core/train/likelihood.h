#pragma once
// The supervised objectives (sft, pretrain): the negative log-likelihood of the supervised tokens.
//
//   loss = Σ w · [ (1 − ε) · (−logp) + ε · (logsumexp − mean_logit) + z · logsumexp² ] / Σ w over the optimizer step
//
// ε is label smoothing with a uniform distribution over the vocabulary, z the z-loss coefficient.
// The data path decides which tokens carry weight: sft and pretrain differ there and nowhere else.
#include "core/job/job.h"
#include "kernels/lm_head/lm_head.h"

namespace forge {

TokenNeeds likelihood_needs(const LikelihoodConfig& objective);

struct LikelihoodGrads {
  TokenGrads grads;
  double loss_sum = 0;  // Σ w · […] of the positions, before division
};

// `weights` fp32 [positions]; `normalizer` is Σ w of the whole optimizer step; `loss_scale`
// multiplies the gradients.
LikelihoodGrads likelihood_grads(const LikelihoodConfig& objective, const TokenOutputs& outputs,
                                 const at::Tensor& weights, double normalizer, double loss_scale);

}  // namespace forge
