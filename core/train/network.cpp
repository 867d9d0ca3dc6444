#include "core/train/network.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "core/base/random.h"
#include "core/objective/likelihood.h"
#include "core/plan/memory.h"
#include "kernels/rms_norm/rms_norm.h"

namespace forge {

Network::Network(Model& model, TrainableSet& trainables, LayerProvider& provider, const Job& job)
    : model_(model), trainables_(trainables), provider_(provider), job_(job) {
  lowest_trained_layer_ = static_cast<int64_t>(model.layers.size());
  for (Trainable& item : trainables.items()) {
    if (item.parameter.layer >= 0) lowest_trained_layer_ = std::min(lowest_trained_layer_, item.parameter.layer);
    if (item.leaf.is_same(model.embedding)) embedding_ = &item;
    if (item.leaf.is_same(model.final_norm)) final_norm_ = &item;
    if (item.leaf.is_same(model.head)) head_ = &item;
  }
  if (embedding_) lowest_trained_layer_ = -1;
}

at::Tensor Network::embed_tokens(const BatchTensors& batch) {
  c10::NoGradGuard no_grad;
  at::Tensor hidden = embed(model_, batch.token_ids);
  if (job_.train.neftune_alpha <= 0 || !batch.training) return hidden;
  // NEFTune (Jain et al., 2023): uniform noise of magnitude alpha / sqrt(length · hidden), by each sequence's length.
  at::Tensor noise = counter_noise(model_.spec.hidden_size, stream_of("neftune"), batch.rows);
  at::Tensor magnitude = at::empty({batch.tokens, 1}, at::kFloat);
  for (size_t s = 0; s + 1 < batch.cu_seqlens.size(); ++s) {
    int64_t begin = batch.cu_seqlens[s], length = batch.cu_seqlens[s + 1] - begin;
    double size = static_cast<double>(length * model_.spec.hidden_size);
    magnitude.narrow(0, begin, length).fill_(job_.train.neftune_alpha / std::sqrt(size));
  }
  return hidden + (noise * magnitude).to(hidden.options());
}

double Network::forward_backward(const BatchTensors& batch, double normalizer, double loss_scale) {
  int64_t layers = static_cast<int64_t>(model_.layers.size());
  std::vector<std::unique_ptr<SavedLayer>> saved(static_cast<size_t>(layers));
  at::Tensor hidden = embed_tokens(batch);
  for (int64_t layer = 0; layer < layers; ++layer)
    hidden = provider_.layer_forward(layer, hidden, batch, layer >= lowest_trained_layer_ ? &saved[layer] : nullptr);
  at::Tensor grad;
  double loss = head_backward(hidden, batch, normalizer, loss_scale, &grad);
  hidden = at::Tensor();
  for (int64_t layer = layers - 1; layer >= std::max<int64_t>(lowest_trained_layer_, 0); --layer)
    grad = provider_.layer_backward(layer, grad, batch, std::move(saved[layer]), layer > lowest_trained_layer_);
  if (embedding_) embedding_backward(grad, batch);
  return loss;
}

double Network::head_backward(const at::Tensor& hidden, const BatchTensors& batch, double normalizer,
                              double loss_scale, at::Tensor* d_hidden) {
  at::Tensor rows = hidden.index_select(0, batch.loss_positions).detach().requires_grad_(true);  // [positions, hidden]
  at::Tensor normed;
  {
    c10::AutoGradMode on(true);
    normed = rms_norm(rows, model_.final_norm, model_.spec.rms_norm_eps);
  }
  double loss = 0;
  auto cotangents = [&](int64_t begin, const TokenOutputs& outputs) {
    at::Tensor weights = batch.loss_weights.narrow(0, begin, outputs.logsumexp.size(0));
    LikelihoodGrads result = likelihood_grads(job_.objective, outputs, weights, normalizer, loss_scale);
    loss += result.loss_sum;
    return result.grads;
  };
  at::Tensor d_normed = head_forward_backward(normed.detach(), head_weight(model_).detach(), batch.loss_targets,
                                              likelihood_needs(job_.objective), cotangents, kHeadChunk,
                                              head_ ? head_->grad : at::Tensor());
  std::vector<at::Tensor> inputs{rows};
  if (final_norm_) inputs.push_back(final_norm_->leaf);
  auto grads = torch::autograd::grad({normed}, inputs, {d_normed});
  c10::NoGradGuard no_grad;
  if (final_norm_) final_norm_->grad.add_(grads[1]);
  *d_hidden = at::zeros_like(hidden).index_copy_(0, batch.loss_positions, grads[0]);
  return loss;
}

void Network::embedding_backward(const at::Tensor& grad, const BatchTensors& batch) {
  c10::NoGradGuard no_grad;
  embedding_->grad.index_add_(0, batch.token_ids, grad.to(at::kFloat));
}

std::vector<ExampleLoss> Network::evaluate(const BatchTensors& batch) {
  c10::NoGradGuard no_grad;
  at::Tensor hidden = embed(model_, batch.token_ids);
  for (int64_t layer = 0; layer < static_cast<int64_t>(model_.layers.size()); ++layer)
    hidden = provider_.layer_forward(layer, hidden, batch, nullptr);
  at::Tensor rows = rms_norm(hidden.index_select(0, batch.loss_positions), model_.final_norm, model_.spec.rms_norm_eps);
  at::Tensor logp = head_forward(rows, head_weight(model_), batch.loss_targets, {.logp = true}, kHeadChunk).logp;
  std::vector<ExampleLoss> losses(batch.cu_seqlens.size() - 1);
  if (!logp.defined()) return losses;
  logp = logp.cpu();
  at::Tensor positions = batch.loss_positions.cpu();
  size_t sequence = 0;
  for (int64_t i = 0; i < logp.size(0); ++i) {
    while (positions.const_data_ptr<int64_t>()[i] >= batch.cu_seqlens[sequence + 1]) ++sequence;
    losses[sequence].loss -= logp.const_data_ptr<float>()[i];
    ++losses[sequence].supervised_tokens;
  }
  return losses;
}

}  // namespace forge
