#pragma once
// The loop of a policy that learns from its own completions:
//
//   a rollout (rollout_source.h) → its updates
#include <functional>
#include <optional>

#include "core/rollout/policy_step.h"
#include "core/train/checkpoint.h"
#include "core/train/rollout_source.h"

namespace forge {

// What the loop needs of the run around it.
struct RolloutPorts {
  std::function<Json(const Json& event)> ask;  // an event `score` → the program's `scores`
  std::function<void(Json event)> record;      // into metrics.jsonl
  std::function<void(const std::string& text)> warn;
  std::string run_folder;
};

struct RolloutEvaluation {
  double reward = 0;  // mean
  Json event;         // what it adds to the event `eval`
};

class RolloutSteps {
 public:
  RolloutSteps(Session& session, const DataSet& train, const DataSet* eval, RolloutPorts ports, StopFlag& stop);

  // The next optimizer step, with micro-batches of 1/divisor of the planned size. Draws a rollout where the one before is used
  // up. Throws as train_step; Error(diverged) where objective.mask_truncated leaves nothing to train on.
  StepStats step(TrainState& state, int64_t divisor);
  // Greedy completions of the first eval.prompts prompts, scored; nothing trains on them.
  RolloutEvaluation evaluate(const TrainState& state);

  // Rollouts so far.
  int64_t drawn(const TrainState& state) const { return (state.step + steps_per_rollout(objective_) - 1) / steps_per_rollout(objective_); }

  // What a checkpoint at `state` must hold beside weights.
  CheckpointRollouts pending(const TrainState& state) const;
  void restore(const CheckpointRollouts& pending, const std::string& path);

 private:
  void train_batch(const PolicyStep& step, const std::vector<size_t>& which, const TrainState& state, StepStats& stats);
  void train_value(const PolicyStep& step, const std::vector<size_t>& which, const TrainState& state, StepStats& stats);
  std::string weights_name(const TrainState& state) const;
  void record(const TrainState& state, double train_seconds) const;
  void watch(const Rollout& rollout);

  Session& session_;
  const ObjectiveConfig& objective_;
  const RolloutConfig& config_;
  const DataSet* eval_;
  const RolloutPorts ports_;
  StopFlag& stop_;
  RolloutPasses passes_;
  RolloutSource source_;
  std::optional<Rollout> rollout_;
  // Of the rollout's first step.
  double gap_sum_ = 0, gap_most_ = 0, gap_ratios_ = 0, entropy_sum_ = 0;
  int64_t gap_tokens_ = 0, flat_in_a_row_ = 0;
  bool gap_told_ = false;
};

}  // namespace forge
