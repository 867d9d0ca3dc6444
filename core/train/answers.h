#pragma once
// Converts a micro-batch's rows to answers, for the objectives of sequences: sums over their
// tokens, or a model's scores of them.
#include <ATen/core/Tensor.h>

#include <vector>

#include "core/train/head.h"

namespace forge {

// Returns the sums of each sequence from fp32 logp [positions] of its supervised positions, with
// what the data say of it. The reference stays 0. Under a model of scores logp is the score of each
// sequence, as of one token.
std::vector<SequenceSums> answers_of(const ModelSpec& model, const at::Tensor& logp, const BatchTensors& batch);

// Returns the loss and cotangents of answers beside the reference's Σ logp, which is empty for
// objectives without one.
SequenceLoss answers_loss(std::vector<SequenceSums> answers, const ObjectiveConfig& objective,
                          const std::vector<double>& reference, const StepScale& scale);

// Returns what the head has to do for the micro-batch's loss / divisor · loss_scale, which is added
// to `loss`. Metrics beside the objective's, over tokens of all answers: entropy (nats),
// token_accuracy (share of tokens that are the likeliest). All arguments must outlive the task.
HeadTask answers_task(const ModelSpec& model, const BatchTensors& batch, const ObjectiveConfig& objective, const StepScale& scale,
                      const std::vector<double>& reference, BatchLoss& loss);

}  // namespace forge
