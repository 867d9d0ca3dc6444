#pragma once
// A provider's lists with the head and the objective between them, for one micro-batch. No branch on provider, adapter,
// family or objective but for its coupling.
#include <cstdint>
#include <functional>
#include <vector>

#include "core/config/job.h"
#include "core/model/model.h"
#include "core/model/step_provider.h"
#include "core/model/trainable.h"
#include "core/objective/sequence_loss.h"
#include "core/optim/optimizer.h"
#include "core/train/fused_head.h"

namespace forge {

// Sums over the supervised tokens of one example.
struct ExampleLoss {
  int64_t supervised_tokens = 0;
  double loss = 0;  // Σ −logp, natural logarithm
};

// What one micro-batch comes to, before division.
struct BatchLoss {
  double loss = 0;
  std::function<double()> later;  // what belongs to the loss, too, and the device may not know yet; or null
  Metrics metrics;
  double reference_gap = 0;  // max |l| of its answers
};

struct PolicyTask;
struct PolicyRows;

class Network {
 public:
  Network(Model& model, TrainableSet& trainables, StepProvider& provider, const Job& job);

  // Adds the gradients of one micro-batch to the trainables' buffers; they are those of loss / divisor · loss_scale.
  // `batch.training` turns dropout and NEFTune on. `reference`: Σ logp of each sequence under the reference model; empty
  // for objectives without one.
  BatchLoss forward_backward(const BatchTensors& batch, const StepScale& scale, const std::vector<double>& reference = {});

  // The same for completions that a policy drew (policy_head.h).
  PolicyRows policy_forward_backward(const BatchTensors& batch, const PolicyTask& task);
  // Log-probabilities and entropies of the supervised tokens at a temperature.
  PolicyRows policy_rows(const BatchTensors& batch, double temperature);

  // Of a model that gives scores: one at each supervised position; and the gradients of what `ask` makes of them, times loss_scale.
  std::vector<double> values(const BatchTensors& batch);
  void value_forward_backward(const BatchTensors& batch, double loss_scale,
                              const std::function<std::vector<double>(const std::vector<double>& values)>& ask);

  // After the last micro-batch of a step; see Optimizer.
  const GradientVerdict& measure(Optimizer& optimizer, double unscale, double max_norm);
  void update(Optimizer& optimizer, double learning_rate, int64_t updates);

  // Tells of the provider's ops, of the head and of the update from now on.
  void watch(const StepWatch& watch);

  // logp of the supervised tokens, without smoothing, noise or dropout. fp32 [targets]; undefined where there are none
  at::Tensor token_logps(const BatchTensors& batch);
  // The same by sequence; of a model that gives scores each sequence's score. The reference stays 0.
  std::vector<SequenceSums> answers(const BatchTensors& batch);
  // The same as −logp.
  std::vector<ExampleLoss> evaluate(const BatchTensors& batch);

 private:
  // Of the last forward: the gradient of its rows.
  void balance_experts(const BatchTensors& batch, const StepScale& scale, BatchLoss& loss);
  at::Tensor head_backward(const HeadRows& head, const BatchTensors& batch, const StepScale& scale,
                           const std::vector<double>& reference, BatchLoss* loss);
  at::Tensor answer_head_backward(const HeadRows& head, const BatchTensors& batch, const StepScale& scale,
                                  const std::vector<double>& reference, BatchLoss* loss);
  at::Tensor token_head_backward(const HeadRows& head, const BatchTensors& batch, const StepScale& scale, BatchLoss* loss);

  FusedHead fused_head() const;
  // The device's clock, where somebody watches.
  Moment now() const;
  at::Tensor score_weight() const;
  void tell_head(const HeadRows& head, const BatchTensors& batch, Moment begin) const;
  void tell(const char* name, const UpdateOps& ops, const Op* op, Moment begin) const;

  Model& model_;
  StepProvider& provider_;
  const Job& job_;
  StepWatch watch_;
  DeviceBlock norm_workspace_;  // where the provider has none
  Captures<LmHead> head_captures_;
  Trainable* head_ = nullptr;  // null: frozen; the embedding's when tied and trained
};

}  // namespace forge
