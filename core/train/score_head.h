#pragma once
// The head of a reward model: one number for a text, r = w · h of its last token, in fp32 whatever the model computes in.
#include <ATen/core/Tensor.h>

#include <vector>

#include "core/model/step_provider.h"
#include "core/train/network.h"

namespace forge {

// rows [texts, hidden], weight fp32 [1, hidden] → fp32 [texts]
at::Tensor scores_of(const at::Tensor& rows, const at::Tensor& weight);
// As an objective reads them: the score in place of a log-probability, of one token.
std::vector<SequenceSums> score_sums(const at::Tensor& scores, const BatchTensors& batch);

struct ScoreHead {
  HeadRows rows;
  at::Tensor weight, weight_grad;  // fp32 [1, hidden]; weight_grad undefined where the head is frozen
};

// → d rows [texts, hidden] of the micro-batch's loss / divisor · loss_scale; adds the head's own gradient.
at::Tensor score_head_backward(const ScoreHead& head, const BatchTensors& batch, const ObjectiveConfig& objective,
                               const StepScale& scale, BatchLoss* loss);

}  // namespace forge
