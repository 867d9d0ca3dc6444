#pragma once
// Checkpoints: weights, optimizer and state of a run, exact to the bit.
//
//   step-000100/ adapter_model.safetensors + adapter_config.json   what PEFT loads (full fine-tuning: model.safetensors)
//                optimizer.safetensors                             "exp_avg.<parameter>", … in fp32
//                value.safetensors  value_optimizer.safetensors    ppo's value network, in fp32
//                state.json  manifest.json  rollout.json           completions that are partly trained
#include <string>

#include "core/train/session.h"
#include "core/train/state.h"

namespace forge {

// `rollout`: what is partly trained of it, as rollout.json; null: nothing. → bytes written.
int64_t save_checkpoint(const Session& session, const TrainState& state, const std::string& run_folder,
                        const Json& rollout = nullptr);
// The rollout of a checkpoint that load_checkpoint has verified; null where it holds none.
Json checkpoint_rollout(const std::string& path);

// Verifies every hash, then loads. Throws Error(environment) when the checkpoint is of another run or damaged.
TrainState load_checkpoint(Session& session, const std::string& path);

// Only the weights, e.g. of the best checkpoint for the export.
void load_checkpoint_weights(Session& session, const std::string& path);

}  // namespace forge
