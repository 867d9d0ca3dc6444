#pragma once
// Checkpoints: weights, optimizer and state of a run, exact to the bit.
//
//   step-000100/ adapter_model.safetensors + adapter_config.json   what PEFT loads (full fine-tuning: model.safetensors)
//                optimizer.safetensors                             "exp_avg.<parameter>", … in fp32
//                value.safetensors  value_optimizer.safetensors    ppo's value network, in fp32
//                state.json  manifest.json  rollout.json           completions that are partly trained
//                ahead.json                                        adapters that pending rollouts are drawn with
#include <set>
#include <string>

#include "core/train/session.h"
#include "core/train/state.h"

namespace forge {

// Rollout data in a checkpoint of a policy that draws completions.
struct CheckpointRollouts {
  Json partly_trained = nullptr;  // rollout.json; null: none is
  Json ahead = Json::array();     // ahead.json; empty: none is drawn ahead
};

// Writes a checkpoint of `state` to `run_folder`. Returns the number of bytes written.
int64_t save_checkpoint(const Session& session, const TrainState& state, const std::string& run_folder,
                        const CheckpointRollouts& rollouts = {});
// Reads the rollout data of a checkpoint that load_checkpoint has verified.
CheckpointRollouts checkpoint_rollouts(const std::string& path);
// Returns the names of the adapters in the ahead.json of all whole checkpoints.
std::set<std::string> adapters_of_checkpoints(const std::string& run_folder);

// Verifies every hash, then loads. Throws Error(environment) when the checkpoint is of another run
// or damaged.
TrainState load_checkpoint(Session& session, const std::string& path);

// Loads only the weights, e.g. those of the best checkpoint for the export.
void load_checkpoint_weights(Session& session, const std::string& path);

}  // namespace forge
