#pragma once
// Where rollouts come from: prompts → completions (drawing.h) → scores → the groups that are kept → log-probabilities, values and
// advantages. Scores come from the program, and stand in the rollout's file before they are used: a run that was killed draws the
// same completions again and takes their scores from there.
#include <functional>
#include <string>
#include <vector>

#include "core/train/drawing.h"
#include "core/train/judges.h"
#include "core/train/rollout_passes.h"

namespace forge {

class RolloutSource {
 public:
  // An event `score` → the program's `scores`.
  using Ask = std::function<Json(const Json& event)>;
  // All but `run_folder` and `ask` are borrowed.
  RolloutSource(Session& session, const DataSet& train, RolloutPasses& passes, std::string run_folder, Ask ask, StopFlag& stop);

  // With as many rounds as dynamic sampling takes; TrainState::drawn says which prompts are next.
  Rollout draw(const TrainState& state, int64_t number);
  // Greedy completions of the first `prompts` rows, one each, with scores.
  std::vector<Completion> greedy(const DataSet& data, int64_t prompts, int64_t step, DrawCost& cost);

 private:
  void score(std::vector<Completion>& completions, const char* split, int64_t number, int64_t step);
  void require_served(Rollout& rollout, std::vector<Completion>& drawn);
  void write_rollout(int64_t number, const std::vector<Completion>& before, const std::vector<Completion>& drawn) const;
  std::vector<size_t> kept_groups(std::vector<Completion>& completions, int64_t room, Rollout& rollout) const;
  std::vector<int64_t> prompts_of(int64_t draw);

  Session& session_;
  const ObjectiveConfig& objective_;
  const RolloutConfig& config_;
  const DataSet& train_;
  RolloutPasses& passes_;
  const std::string run_folder_;
  const Ask ask_;
  StopFlag& stop_;
  Judges judges_;
  Drawing drawing_;
  // The epoch of prompts at hand, and the number of its first batch.
  std::vector<std::vector<int64_t>> epoch_batches_;
  int64_t epoch_ = -1, epoch_begin_ = 0;
};

}  // namespace forge
