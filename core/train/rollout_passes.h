#pragma once
// A rollout's completions as micro-batches, and forward passes over all of them: log-probabilities of before and of the base, values.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/rollout/rollout.h"
#include "core/train/reference.h"
#include "core/train/step.h"

namespace forge {

class RolloutPasses {
 public:
  // All are borrowed; `train` has the prompts.
  RolloutPasses(Session& session, const DataSet& train, const StopFlag& stop);

  // Of some completions, by their place in the rollout: micro-batches of 1/divisor of the planned size.
  std::vector<std::vector<size_t>> batches(const Rollout& rollout, const std::vector<size_t>& which, int64_t divisor) const;
  // Prompts and completions, which are supervised but for what tools have inserted.
  Batch batch_of(const Rollout& rollout, const std::vector<size_t>& which) const;
  BatchTensors tensors_of(const Batch& batch) const;

  // What `give` is handed for each of some completions: its share of numbers by supervised position.
  using Give = std::function<void(Completion& completion, const double* begin, const double* end)>;
  static void share_out(Rollout& rollout, const std::vector<size_t>& which, const std::vector<double>& numbers, const Give& give);

  bool has_base() const { return base_ != nullptr; }
  // Both throw StepInterrupted.
  void add_logps(Rollout& rollout, bool old, bool base);
  void add_values(Rollout& rollout);
  // Log-probabilities with the weights of an adapter's folder (Completion::drawn_logps). Throws what reading it throws, StepInterrupted.
  void add_drawn_logps(Rollout& rollout, const std::string& folder);

 private:
  std::vector<std::vector<size_t>> all_batches(const Rollout& rollout) const;
  // By supervised position, at the temperature of the rollouts.
  std::vector<double> logps_of(const BatchTensors& batch) const;

  Session& session_;
  const DataSet& train_;
  const StopFlag& stop_;
  std::unique_ptr<BaseLogps> base_;
};

}  // namespace forge
