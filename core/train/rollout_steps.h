#pragma once
// The loop of a policy that learns from its own completions:
//
//   draw prompts → generate → score → log-probabilities of before, of the base, and values → advantages → updates
//
// Completions are drawn with the weights that are trained (drawing.h). Scores come from the program, and stand in the rollout's
// file before they are used: a run that was killed draws the same completions again and takes their scores from there.
#include <functional>
#include <optional>

#include "core/rollout/policy_step.h"
#include "core/train/drawing.h"
#include "core/train/judges.h"
#include "core/train/reference.h"
#include "core/train/step.h"

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

  // What a checkpoint at `state` must hold beside weights; null between rollouts.
  Json pending(const TrainState& state) const;
  void restore(const Json& pending, const std::string& path);

 private:
  Rollout draw_rollout(const TrainState& state, int64_t number);
  // Completions to be drawn, by prompt.
  static std::vector<Completion> wished(const std::vector<int64_t>& prompts, int64_t draw, int64_t samples);
  void score(std::vector<Completion>& completions, const DataSet& data, const char* split, int64_t number, int64_t step);
  void require_served(Rollout& rollout, std::vector<Completion>& drawn);
  void write_rollout(int64_t number, const std::vector<Completion>& before, const std::vector<Completion>& drawn) const;
  std::vector<size_t> kept_groups(std::vector<Completion>& completions, int64_t room, Rollout& rollout) const;
  std::vector<int64_t> prompts_of(int64_t draw);
  void add_logps(Rollout& rollout, bool old, bool base);
  void add_values(Rollout& rollout);
  // What `give` is handed for each of some completions: its share of numbers by supervised position.
  using Give = std::function<void(Completion& completion, const double* begin, const double* end)>;
  static void share_out(Rollout& rollout, const std::vector<size_t>& which, const std::vector<double>& numbers, const Give& give);

  std::vector<std::vector<size_t>> batches(const Rollout& rollout, const std::vector<size_t>& which, int64_t divisor) const;
  std::vector<std::vector<size_t>> all_batches(const Rollout& rollout) const;
  Batch batch_of(const Rollout& rollout, const std::vector<size_t>& which) const;
  void train_batch(const PolicyStep& step, const std::vector<size_t>& which, const TrainState& state, StepStats& stats);
  void train_value(const PolicyStep& step, const std::vector<size_t>& which, const TrainState& state, StepStats& stats);
  void tell(const StepStats& stats, const TrainState& state);
  void watch(const Rollout& rollout);

  Session& session_;
  const ObjectiveConfig& objective_;
  const RolloutConfig& config_;
  const DataSet& train_;
  const DataSet* eval_;
  const RolloutPorts ports_;
  StopFlag& stop_;
  std::unique_ptr<BaseLogps> base_;
  Judges judges_;
  Drawing drawing_;
  std::optional<Rollout> rollout_;
  // The epoch of prompts at hand, and the number of its first batch.
  std::vector<std::vector<int64_t>> epoch_batches_;
  int64_t epoch_ = -1, epoch_begin_ = 0;
  // Of the rollout's first step.
  double gap_sum_ = 0, gap_most_ = 0, gap_ratios_ = 0, entropy_sum_ = 0;
  int64_t gap_tokens_ = 0, flat_in_a_row_ = 0;
  bool gap_told_ = false;
};

}  // namespace forge
