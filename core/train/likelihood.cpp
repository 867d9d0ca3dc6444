#include "core/train/likelihood.h"

#include <ATen/ATen.h>

namespace forge {

TokenNeeds likelihood_needs(const LikelihoodConfig& objective) {
  return {.logp = true,
          .logsumexp = objective.z_loss > 0 || objective.label_smoothing > 0,
          .mean_logit = objective.label_smoothing > 0};
}

LikelihoodGrads likelihood_grads(const LikelihoodConfig& objective, const TokenOutputs& outputs,
                                 const at::Tensor& weights, double normalizer, double loss_scale) {
  double smoothing = objective.label_smoothing, z = objective.z_loss;
  at::Tensor loss = outputs.logp.neg();
  if (smoothing > 0) loss = loss.mul_(1 - smoothing).add_(outputs.logsumexp - outputs.mean_logit, smoothing);
  if (z > 0) loss = loss.add_(outputs.logsumexp.square(), z);
  LikelihoodGrads result;
  result.loss_sum = (loss * weights).sum(at::kDouble).item<double>();
  at::Tensor scaled = weights * (loss_scale / normalizer);  // d loss / d (per-token loss)
  result.grads.logp = scaled * -(1 - smoothing);
  if (smoothing > 0) result.grads.mean_logit = scaled * -smoothing;
  if (smoothing > 0 || z > 0) result.grads.logsumexp = scaled * (smoothing + 2 * z * outputs.logsumexp);
  return result;
}

}  // namespace forge
