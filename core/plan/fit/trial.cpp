#include "core/plan/fit/trial.h"

#include "core/plan/stages/inventory.h"

namespace forge {

Fitted with_trial(const Schedule& plan, const Trial& trial, int64_t available_bytes) {
  Fitted fitted{plan};
  TrainConfig& train = fitted.job.train;
  train.micro_batch_tokens = trial.micro_batch.tokens;
  train.micro_batch_size = trial.micro_batch.examples;
  train.activation_checkpointing = trial.checkpointing;
  train.activation_offloading = trial.activations;
  fitted.job.optimizer.offload = trial.state;
  fitted.step = trial.step;
  fitted.parameters = count_parameters(parameters_of(plan));
  fitted.targets = target_matches(plan.model, plan.job.adapter);
  fitted.memory = trial.memory;
  fitted.host_memory = trial.host_memory;
  fitted.training_batch = trial.training_batch;
  fitted.evaluation_batch = trial.evaluation_batch;
  fitted.predicted_peak_bytes = trial.peak_bytes;
  fitted.available_bytes = available_bytes;
  return fitted;
}

}  // namespace forge
