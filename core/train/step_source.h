#pragma once
// Where a run's steps come from: the rows of data.train (token_steps.h), or completions that the
// policy draws (rollout_steps.h).

#include "core/train/checkpoint.h"
#include "core/train/step.h"

namespace forge {

struct Evaluation {
  double loss = 0;  // the best evaluation has the least
  bool of_training = false;  // the loss is the one that steps minimise
  Json event;                // members of the event `eval` besides step and eval_loss
};

// In every function micro-batches are `divisor` times smaller than planned.
class StepSource {
 public:
  virtual ~StepSource() = default;

  // Called once, before the first step of a run that is not resumed.
  virtual void begin() {}
  // Runs step state.step + 1. Throws like train_step.
  virtual StepStats step(TrainState& state, int64_t divisor) = 0;
  // True if smaller micro-batches of that step do not exist.
  virtual bool smallest(const TrainState& state, int64_t divisor) = 0;
  virtual Evaluation evaluate(const TrainState& state, int64_t divisor) = 0;
  // True if smaller batches of an evaluation do not exist.
  virtual bool smallest_evaluation(int64_t divisor) const = 0;
  // Returns the rollout data that a checkpoint at `state` must hold besides weights.
  virtual CheckpointRollouts pending(const TrainState&) const { return {}; }
  // Returns the report's samples: answers of the trained model. Called after the last step.
  virtual Json samples(const TrainState& state) = 0;
};

}  // namespace forge
