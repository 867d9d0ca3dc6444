#pragma once
// The head under an objective whose gradient is known only after the sums over whole answers.
//
// The gradient of a position's logp by its hidden state, D = W_y − Σ p_v W_v (each row times the cap's slope), does not
// know the objective. So one visit of the head leaves logp and, where the gradient of the rows belongs, D; then the
// objective turns sums into cotangents g, and every row of D is multiplied by its g in place. Same cost and memory as
// of an objective by tokens. Where the head itself is trained, its own gradient Σ g (1_y − p) hᵀ cannot be made before g
// is known, and the head is visited twice: for logp, then for the gradients.
#include <ATen/core/Tensor.h>

#include <vector>

#include "core/model/step_provider.h"
#include "core/train/network.h"

namespace forge {

// Of each sequence of the batch, from fp32 logp [positions] of its supervised positions, with what the data say of it. The
// reference stays 0.
std::vector<SequenceSums> sequence_sums(const at::Tensor& logp, const BatchTensors& batch);

// Every row times its factor, in place. rows [positions, hidden], factors fp32 [positions].
at::Tensor multiply_rows(at::Tensor rows, const at::Tensor& factors);

struct SequenceHead {
  HeadRows rows;
  at::Tensor weight, weight_grad;  // [vocab, hidden]; weight_grad fp32, undefined where the head is frozen
  double softcap = 0;
};

// → d rows [targets, hidden] of the micro-batch's loss / divisor · loss_scale. `reference` as Network has it. Metrics beside the
// objective's, over tokens of all answers: entropy (nats), token_accuracy (share of tokens that are the likeliest).
at::Tensor sequence_head_backward(const SequenceHead& head, const BatchTensors& batch, const ObjectiveConfig& objective,
                                  const StepScale& scale, const std::vector<double>& reference, BatchLoss* loss);

// The same sums as a loss, for evaluation.
SequenceLoss answers_loss(std::vector<SequenceSums> answers, const ObjectiveConfig& objective,
                          const std::vector<double>& reference, const StepScale& scale);

}  // namespace forge
