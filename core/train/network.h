#pragma once
// Runs a provider's lists with the head and the objective between them, for one micro-batch. It
// branches on no provider, adapter, family or objective, except on the objective's coupling.
#include <cstdint>
#include <vector>

#include "core/job/job.h"
#include "core/learn/objective/sequence_loss.h"
#include "core/model/model.h"
#include "core/model/step_provider.h"
#include "core/model/trainable.h"
#include "core/train/head.h"
#include "core/train/optim/optimizer.h"

namespace forge {

// Returns the loss and cotangents of answers beside the reference's Σ logp, which is empty for
// objectives without one.
SequenceLoss answers_loss(std::vector<SequenceSums> answers, const ObjectiveConfig& objective,
                          const std::vector<double>& reference, const StepScale& scale);

class Network {
 public:
  Network(Model& model, TrainableSet& trainables, StepProvider& provider, const Job& job);

  // Adds the gradients of one micro-batch to the trainables' buffers; they are those of loss /
  // divisor · loss_scale. `batch.training` turns dropout and NEFTune on. `reference`: Σ logp of
  // each sequence under the reference model; empty for objectives without one.
  BatchLoss forward_backward(const BatchTensors& batch, const StepScale& scale, const std::vector<double>& reference = {});

  // Like forward_backward() above, for a caller that judges the rows itself: a policy's
  // completions, a value network's errors. Returns the rows' numbers.
  TokenOutputs rows_forward_backward(const BatchTensors& batch, const HeadTask& task);
  // Returns numbers of the supervised positions, without smoothing, noise or dropout. For a model
  // that gives scores, the score takes the place of logp. fp32 [targets]; undefined if there are
  // none.
  TokenOutputs rows(const BatchTensors& batch, const TokenNeeds& needs = {.logp = true});

  // measure() and update() are called after the last micro-batch of a step; see Optimizer.
  const GradientVerdict& measure(Optimizer& optimizer, double unscale, double max_norm);
  void update(Optimizer& optimizer, double learning_rate, int64_t updates);

  // Reports the provider's ops, the head and the update to `watch` from now on.
  void watch(const StepWatch& watch);

  // Returns logp by sequence; for a model that gives scores, each sequence's score. The reference
  // stays 0.
  std::vector<SequenceSums> answers(const BatchTensors& batch);

 private:
  void balance_experts(const BatchTensors& batch, const StepScale& scale, BatchLoss& loss);

  // Returns the device's clock if somebody watches, else an empty moment.
  Moment now() const;
  void tell(const char* name, const Graph* list, const Op* op, Moment begin, int64_t tokens = 0,
            int64_t targets = 0) const;

  Model& model_;
  StepProvider& provider_;
  const Job& job_;
  StepWatch watch_;
  DeviceBlock norm_workspace_;  // where the provider has none
  Head head_;
};

}  // namespace forge
