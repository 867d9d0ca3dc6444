#pragma once
// A provider's lists with the head and the objective between them, for one micro-batch. No branch on provider, adapter or family.
#include <cstdint>
#include <vector>

#include "core/config/job.h"
#include "core/model/model.h"
#include "core/model/step_provider.h"
#include "core/model/trainable.h"
#include "core/optim/optimizer.h"
#include "core/train/fused_head.h"

namespace forge {

// Sums over the supervised tokens of one example.
struct ExampleLoss {
  int64_t supervised_tokens = 0;
  double loss = 0;  // Σ −logp, natural logarithm
};

class Network {
 public:
  Network(Model& model, TrainableSet& trainables, StepProvider& provider, const Job& job);

  // Adds the gradients of one micro-batch to the trainables' buffers; they are those of (Σ w loss) / normalizer ·
  // loss_scale. → Σ w loss. `batch.training` turns dropout and NEFTune on.
  double forward_backward(const BatchTensors& batch, double normalizer, double loss_scale);

  // After the last micro-batch of a step; see Optimizer.
  const GradientVerdict& measure(Optimizer& optimizer, double unscale, double max_norm);
  void update(Optimizer& optimizer, double learning_rate, int64_t updates);

  // Tells of the provider's ops, of the head and of the update from now on.
  void watch(const StepWatch& watch);

  // −logp of the supervised tokens of each sequence, without smoothing, noise or dropout.
  std::vector<ExampleLoss> evaluate(const BatchTensors& batch);

 private:
  // Of the last forward: the gradient of its rows, and Σ w loss.
  at::Tensor head_backward(const HeadRows& head, const BatchTensors& batch, double normalizer,
                           double loss_scale, double* loss);

  FusedHead fused_head() const;
  void tell_head(const HeadRows& head, const BatchTensors& batch, std::chrono::steady_clock::time_point begin) const;
  void tell(const char* name, const UpdateOps& ops, const Op* op, std::chrono::steady_clock::time_point begin) const;

  Model& model_;
  StepProvider& provider_;
  const Job& job_;
  StepWatch watch_;
  std::vector<char> norm_workspace_;  // where the provider has none
  Trainable* head_ = nullptr;  // null: frozen; the embedding's when tied and trained
};

}  // namespace forge
