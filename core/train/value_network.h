#pragma once
// The second network of ppo: it foresees the reward of a completion at each of its tokens, and
// learns from what came.
//
//   std::vector<double> values = session.value->values(tensors);      // one for each supervised position
//   session.value->forward_backward(tensors, scale, ask);             // ask(values) → their cotangents
//
// It shares the base's frozen weights with the policy (core/model/families/value_model.h) and the
// memory of its step in turn. A fresh head is zero, so that it begins by foreseeing nothing.
#include <functional>
#include <memory>
#include <vector>

#include "core/train/session.h"

namespace forge {

// Called once with the values of a micro-batch. Returns ∂ loss / ∂ value of each.
using ValueCotangents = std::function<std::vector<double>(const std::vector<double>& values)>;

class ValueNetwork {
 public:
  // `base`: the model's own weights, before the policy's adapter.
  ValueNetwork(const Session& session, Model base);

  std::vector<double> values(const BatchTensors& batch);
  void forward_backward(const BatchTensors& batch, double loss_scale, const ValueCotangents& ask);

  // zero_grad() begins the network's updates; measure() and update() end them. `learning_rate` is
  // the policy's.
  void zero_grad() { trainables_.zero_grad(); }
  const GradientVerdict& measure(double unscale, double max_norm);
  void update(double learning_rate, int64_t updates);

  TrainableSet& trainables() { return trainables_; }
  Optimizer& optimizer() { return *optimizer_; }

 private:
  const double rate_ratio_;
  Job job_;  // with its own adapter
  Model model_;
  TrainableSet trainables_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<StepProvider> provider_;
  std::unique_ptr<Network> network_;
};

}  // namespace forge
