#pragma once
// Networks beside the one that is trained, each with the provider that computes it.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/plan/files/judge_model.h"
#include "core/train/session.h"

namespace forge {

// A session's base by itself, without what is trained: its own weights.
class BaseModel {
 public:
  // session.base must be there. Both share the session's arena, in turn.
  explicit BaseModel(const Session& session);
  Network& network() { return network_; }

 private:
  Model model_;
  TrainableSet nothing_;
  std::unique_ptr<StepProvider> provider_;
  Network network_;
};

// A model as its files have it.
class LoadedNetwork {
 public:
  // Computes the job's objective with the model's adapter and quantization (job_of).
  LoadedNetwork(LoadedModel loaded, const std::string& provider, Job job = {});
  LoadedNetwork(const LoadedNetwork&) = delete;
  const Model& model() const { return loaded_.model; }
  const Job& job() const { return job_; }
  Network& network() { return network_; }

 private:
  LoadedModel loaded_;
  const Job job_;
  std::unique_ptr<StepProvider> provider_;
  Network network_;
};

// Returns the score of each text by its last token, computed `batch_tokens` tokens at a time (a
// longer text alone). Throws StepInterrupted.
std::vector<double> text_scores(Network& network, const Model& model, const std::vector<std::vector<int32_t>>& texts,
                                int64_t batch_tokens, const StopFlag& stop);

// Scores texts with the reward models of a policy. The program sends the texts as tokens.
class Judges {
 public:
  // Loads the reward models of the job, if any.
  explicit Judges(const Session& session);
  // Returns the scores of texts by the reward of that name.
  std::vector<double> scores(const std::string& reward, const std::vector<std::vector<int32_t>>& texts, const StopFlag& stop);

 private:
  struct Judge {
    Judge(const Session& session, const JudgeModel& files);
    LoadedModel loaded;
    Job job;
    int64_t tokens;
    std::unique_ptr<StepProvider> provider;
    std::unique_ptr<Network> network;
  };
  std::map<std::string, std::unique_ptr<Judge>> judges_;
};

// Called once with the values of a micro-batch. Returns ∂ loss / ∂ value of each.
using ValueCotangents = std::function<std::vector<double>(const std::vector<double>& values)>;

// The second network of ppo: it foresees the reward of a completion at each of its tokens, and
// learns from what came.
//
//   std::vector<double> values = session.value->values(tensors);      // one for each supervised position
//   session.value->forward_backward(tensors, scale, ask);             // ask(values) → their cotangents
//
// It shares the base's frozen weights with the policy (core/model/families/value_model.h) and the
// memory of its step in turn. A fresh head is zero, so that it begins by foreseeing nothing.
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
