#pragma once
// The head of a reward model: one number for a text, r = w · h of its last token, in fp32 whatever the model computes in.
#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "core/model/step_provider.h"
#include "core/train/network.h"

namespace forge {

// rows [texts, hidden], weight fp32 [1, hidden] → fp32 [texts]
at::Tensor scores_of(const at::Tensor& rows, const at::Tensor& weight);
// As an objective reads them: the score in place of a log-probability, of one token.
std::vector<SequenceSums> score_sums(const std::vector<double>& scores, const BatchTensors& batch);

struct ScoreHead {
  HeadRows rows;
  at::Tensor weight, weight_grad;  // fp32 [1, hidden]; weight_grad undefined where the head is frozen
};

// → d rows [rows, hidden] where `ask` makes cotangents of the rows' scores, times loss_scale; adds the head's own gradient.
at::Tensor score_rows_backward(const ScoreHead& head, double loss_scale,
                               const std::function<std::vector<double>(const std::vector<double>& scores)>& ask);

// → d rows [texts, hidden] of the micro-batch's loss / divisor · loss_scale; adds the head's own gradient.
at::Tensor score_head_backward(const ScoreHead& head, const BatchTensors& batch, const ObjectiveConfig& objective,
                               const StepScale& scale, BatchLoss* loss);

}  // namespace forge
