#pragma once
// The whole network around a provider's layers: embedding, layers, final norm, head and objective, forward and
// backward for one micro-batch. No branch on provider, adapter or family.
#include <cstdint>
#include <memory>
#include <vector>

#include "core/config/job.h"
#include "core/model/layer.h"
#include "core/model/model.h"
#include "core/model/trainable.h"

namespace forge {

// Sums over the supervised tokens of one example.
struct ExampleLoss {
  int64_t supervised_tokens = 0;
  double loss = 0;  // Σ −logp, natural logarithm
};

class Network {
 public:
  Network(Model& model, TrainableSet& trainables, LayerProvider& provider, const Job& job);

  // Adds the gradients of one micro-batch to the trainables' buffers; they are those of (Σ w loss) / normalizer ·
  // loss_scale. → Σ w loss. `batch.training` turns dropout and NEFTune on.
  double forward_backward(const BatchTensors& batch, double normalizer, double loss_scale);

  // −logp of the supervised tokens of each sequence, without smoothing, noise or dropout.
  std::vector<ExampleLoss> evaluate(const BatchTensors& batch);

 private:
  at::Tensor embed_tokens(const BatchTensors& batch);
  double head_backward(const at::Tensor& hidden, const BatchTensors& batch, double normalizer, double loss_scale,
                       at::Tensor* d_hidden);
  void embedding_backward(const at::Tensor& grad, const BatchTensors& batch);

  Model& model_;
  TrainableSet& trainables_;
  LayerProvider& provider_;
  const Job& job_;
  Trainable* embedding_ = nullptr;  // null where frozen
  Trainable* final_norm_ = nullptr;
  Trainable* head_ = nullptr;       // the embedding's when tied and trained
  int64_t lowest_trained_layer_ = 0;  // nothing below wants a gradient
};

}  // namespace forge
