#pragma once
// The loop of a policy that learns from its own completions:
//
//   a rollout (rollout_source.h) → its updates
#include <functional>
#include <optional>

#include "core/learn/rollout/policy_step.h"
#include "core/train/checkpoint.h"
#include "core/train/rollout_source.h"
#include "core/train/step_source.h"

namespace forge {

class RolloutSteps : public StepSource {
 public:
  RolloutSteps(Session& session, const DataSet& train, const DataSet* eval, RolloutPorts ports, StopFlag& stop);

  // Runs the next optimizer step, with micro-batches of 1/divisor of the planned size. Draws a
  // rollout if the one before is used up. Throws like train_step, and Error(diverged) if
  // objective.mask_truncated leaves nothing to train on.
  StepStats step(TrainState& state, int64_t divisor) override;
  bool smallest(const TrainState&, int64_t divisor) override { return *session_.job.train.micro_batch_tokens / divisor <= 1; }
  // Draws greedy completions of the first eval.prompts prompts and has them scored; nothing trains
  // on them. The best evaluation is the one of the highest reward: a loss is its negative.
  Evaluation evaluate(const TrainState& state, int64_t divisor) override;
  bool smallest_evaluation(int64_t) const override { return true; }
  CheckpointRollouts pending(const TrainState& state) const override;
  // Returns samples of the rollouts, which are samples themselves.
  Json samples(const TrainState& state) override;

  void restore(const CheckpointRollouts& pending, const std::string& path);

 private:
  void train_batch(const PolicyStep& step, const std::vector<size_t>& which, const TrainState& state, StepStats& stats);
  void train_value(const PolicyStep& step, const std::vector<size_t>& which, const TrainState& state, StepStats& stats);
  std::string weights_name(const TrainState& state) const;
  void record(const TrainState& state, double train_seconds) const;
  void watch(const Rollout& rollout);

  Session& session_;
  const ObjectiveConfig& objective_;
  const PolicyConfig& policy_;
  const RolloutConfig& config_;
  const DataSet* eval_;
  const RolloutPorts ports_;
  StopFlag& stop_;
  RolloutPasses passes_;
  RolloutSource source_;
  std::optional<Rollout> rollout_;
  // Sums and the maximum over the rollout's first step.
  double gap_sum_ = 0, gap_most_ = 0, gap_ratios_ = 0, entropy_sum_ = 0;
  int64_t gap_tokens_ = 0, flat_in_a_row_ = 0;
  bool gap_told_ = false;
};

}  // namespace forge
