#pragma once
// Forms micro-batches of a rollout's completions, and runs forward passes over all of them:
// log-probabilities from before the rollout's updates, those of the base, and values.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/data/dataset.h"
#include "core/learn/rollout/rollout.h"
#include "core/train/other_networks.h"

namespace forge {

class RolloutPasses {
 public:
  // All are borrowed; `train` has the prompts.
  RolloutPasses(Session& session, const DataSet& train, const StopFlag& stop);

  // Splits some completions, given by their place in the rollout, into micro-batches of 1/divisor
  // of the planned size.
  std::vector<std::vector<size_t>> batches(const Rollout& rollout, const std::vector<size_t>& which, int64_t divisor) const;
  // Returns prompts and completions. Completions are supervised, except what tools have inserted.
  Batch batch_of(const Rollout& rollout, const std::vector<size_t>& which) const;
  BatchTensors tensors_of(const Batch& batch) const;

  // Receives, for each of some completions, its share of numbers by supervised position.
  using Give = std::function<void(Completion& completion, const double* begin, const double* end)>;
  static void share_out(Rollout& rollout, const std::vector<size_t>& which, const std::vector<double>& numbers, const Give& give);

  bool has_base() const { return base_ != nullptr; }
  // Both throw StepInterrupted.
  void add_logps(Rollout& rollout, bool old, bool base);
  void add_values(Rollout& rollout);
  // Computes log-probabilities with the weights in an adapter's folder (Completion::drawn_logps).
  // Throws what reading it throws, and StepInterrupted.
  void add_drawn_logps(Rollout& rollout, const std::string& folder);

 private:
  using Numbers = std::vector<float> Completion::*;
  template <class Compute>
  double pass(Rollout& rollout, Numbers numbers, const Compute& compute) const;
  // Sets log-probabilities under a network, at the temperature of the rollouts. Returns seconds.
  double pass_logps(Network& network, Numbers logps, Rollout& rollout) const;

  Session& session_;
  const DataSet& train_;
  const StopFlag& stop_;
  std::unique_ptr<BaseModel> base_;  // null: nothing needs its log-probabilities
};

}  // namespace forge
