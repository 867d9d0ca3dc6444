#include "core/train/score_head.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "core/train/policy_head.h"

namespace forge {

at::Tensor scores_of(const at::Tensor& rows, const at::Tensor& weight) { return at::mv(rows.to(at::kFloat), weight.view({-1})); }

std::vector<SequenceSums> score_sums(const std::vector<double>& scores, const BatchTensors& batch) {
  std::vector<SequenceSums> sums(scores.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i].logp = scores[i];
    sums[i].tokens = 1;
    if (!batch.judgements.empty()) sums[i].margin = batch.judgements[i].margin;
  }
  return sums;
}

at::Tensor score_rows_backward(const ScoreHead& head, double loss_scale,
                               const std::function<std::vector<double>(const std::vector<double>& scores)>& ask) {
  c10::NoGradGuard no_grad;
  const at::Tensor rows = head.rows.rows.to(at::kFloat);
  std::vector<float> pulls;
  for (const double cotangent : ask(host_doubles(scores_of(rows, head.weight)))) pulls.push_back(static_cast<float>(cotangent * loss_scale));
  const at::Tensor g = at::tensor(pulls, at::kFloat).to(rows.device());
  if (head.weight_grad.defined()) head.weight_grad.view({-1}).add_(at::mv(rows.t(), g));
  at::Tensor d_rows = head.rows.d_rows.defined() ? head.rows.d_rows : at::empty_like(head.rows.rows);
  return d_rows.copy_(at::outer(g, head.weight.view({-1})));
}

at::Tensor score_head_backward(const ScoreHead& head, const BatchTensors& batch, const ObjectiveConfig& objective,
                               const StepScale& scale, BatchLoss* loss) {
  return score_rows_backward(head, scale.loss_scale, [&](const std::vector<double>& scores) {
    const SequenceLoss result = sequence_loss(objective, score_sums(scores, batch), scale);
    loss->loss += result.loss;
    add(loss->metrics, result.metrics);
    return result.cotangents;
  });
}

}  // namespace forge
