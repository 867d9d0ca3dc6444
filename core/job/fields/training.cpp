// Keys of what a run does: train, optimizer, schedule, checkpoint, eval, log, hardware.
#include "core/job/field_builder.h"
#include "core/job/fields.h"

namespace forge {

std::vector<Field> train_fields() {
  return {
      key("epochs", &TrainConfig::epochs, "Number of passes over the training data.")
          .above(0)
          .when_unset("1, unless another limit is set")
          .role(KeyRole::limit),
      key("max_steps", &TrainConfig::max_steps, "Stop after this many optimizer steps.")
          .at_least(1, "steps")
          .when_unset("no limit")
          .role(KeyRole::limit),
      key("max_tokens", &TrainConfig::max_tokens, "Stop after this many tokens.")
          .at_least(1, "tokens")
          .when_unset("no limit")
          .role(KeyRole::limit),
      key("max_time", &TrainConfig::max_time,
          "Stop after this much wall-clock time, including loading and evaluation: seconds, or "
          "90s, 30m, 1h30m.")
          .seconds()
          .when_unset("no limit")
          .role(KeyRole::limit),
      key("global_batch_size", &TrainConfig::global_batch_size,
          "Examples per optimizer step, packed or not.")
          .automatic()
          .range(1, 1 << 24, "examples")
          .when_unset("32, unless global_batch_tokens is set"),
      key("global_batch_tokens", &TrainConfig::global_batch_tokens,
          "Tokens per optimizer step. An alternative to global_batch_size.")
          .at_least(1, "tokens")
          .when_unset("global_batch_size applies"),
      key("micro_batch_size", &TrainConfig::micro_batch_size,
          "Examples per forward and backward pass. auto picks the smallest batch that reaches full "
          "throughput and fits into memory.")
          .automatic()
          .range(1, 1 << 24, "examples")
          .role(KeyRole::execution),
      key("micro_batch_tokens", &TrainConfig::micro_batch_tokens,
          "Tokens per forward and backward pass. With packing, rows are filled up to this size. "
          "Without packing, each pass takes as many consecutive examples as fit.")
          .automatic()
          .at_least(1, "tokens")
          .role(KeyRole::execution),
      key("activation_checkpointing", &TrainConfig::activation_checkpointing,
          "Activations that the backward pass recomputes instead of keeping in memory: nothing "
          "(none), the inside of the MLP (selective), or whole layers (full). auto keeps what fits "
          "and drops single values, cheapest to recompute first; plans call this chosen.")
          .automatic()
          .role(KeyRole::execution),
      key("activation_offloading", &TrainConfig::activation_offloading,
          "Memory that holds the inputs of layers until the backward pass, when a GPU trains: that "
          "of the card (none), or pinned memory of the host (host). Copies to the host and back "
          "overlap with the computation of other layers. With activation_checkpointing: full, "
          "nothing else is kept. auto takes host if the job fits in no other way.")
          .automatic()
          .role(KeyRole::execution),
      key("precision", &TrainConfig::precision,
          "Data type of frozen weights, activations and matrix products. auto uses that of the "
          "hardware profile.")
          .automatic(),
      key("residual", &TrainConfig::residual,
          "Data type of the residual stream, which every layer adds to, in fp16: compute is fp16 "
          "itself, whose largest value is 65,504; fp32 takes two more bytes per element. auto uses "
          "that of the hardware profile. In bf16 and fp32, the stream has the type of everything "
          "else.")
          .automatic(),
      key("master_weights", &TrainConfig::master_weights,
          "Keep an fp32 copy of trained weights that are computed in bf16 or fp16."),
      key("max_grad_norm", &TrainConfig::max_grad_norm, "Clip gradients to this norm. 0 disables clipping.")
          .at_least(0),
      key("neftune_alpha", &TrainConfig::neftune_alpha,
          "Scale of the NEFTune noise on embeddings. 0 disables it.")
          .at_least(0),
      key("on_nan", &TrainConfig::on_nan,
          "Reaction to a loss that is not finite: stop the run, or skip the step."),
      key("deterministic", &TrainConfig::deterministic,
          "Use only kernels that give bit-identical results in every run.")
          .role(KeyRole::execution),
      key("threads", &TrainConfig::threads, "Number of CPU threads.")
          .automatic()
          .range(1, 4096)
          .role(KeyRole::execution),
  };
}

std::vector<Field> optimizer_fields() {
  return {
      key("type", &OptimizerConfig::type,
          "Optimizer. adamw_8bit keeps its state in 8 bits. lion keeps a single moment and needs a "
          "learning rate 3 to 10 times smaller than adamw. adafactor keeps one number for each row "
          "and column of a matrix. muon orthogonalizes the update of each linear layer's matrix "
          "and of each adapter factor separately, and trains everything else with adamw at the "
          "same rate. schedule_free is AdamW with averaged weights in place of a decaying schedule "
          "(schedule.type: constant).")
          .later({"sophia"}),
      key("learning_rate", &OptimizerConfig::learning_rate, "Peak learning rate.")
          .above(0)
          .when_unset("sft and pretrain `2e-4`, reward `1e-4` (all weights: `1e-5`), other objectives `1e-5` (all weights: `1e-6`)"),
      key("betas", &OptimizerConfig::betas,
          "Decay rates: of the first and second moment (adamw, adamw_8bit, the adamw part of "
          "muon), of the update and the momentum (lion), or of the average and the second moment "
          "(schedule_free). auto is 0.9 and 0.999, for lion 0.9 and 0.99.")
          .at_least(0)
          .below(1)
          .length(2)
          .automatic(),
      key("eps", &OptimizerConfig::eps,
          "Term added to the denominator for numerical stability (adamw, adamw_8bit, muon, "
          "schedule_free).")
          .above(0),
      key("weight_decay", &OptimizerConfig::weight_decay,
          "Decoupled weight decay. Not applied to norms and biases.")
          .at_least(0),
      key("momentum", &OptimizerConfig::momentum,
          "Momentum (sgd, muon). auto is 0 for sgd and 0.95 for muon.")
          .at_least(0)
          .below(1)
          .automatic(),
      key("offload", &OptimizerConfig::offload,
          "Memory that holds the optimizer's state when a GPU trains: that of the card (none), or "
          "pinned memory of the host (host), which every step reads and writes over PCIe (adamw, "
          "adamw_8bit, lion). auto takes host if the job fits in no other way.")
          .automatic()
          .role(KeyRole::execution),
  };
}

std::vector<Field> schedule_fields() {
  return {
      key("type", &ScheduleConfig::type, "Learning rate schedule after warmup.")
          .later({"reduce_lr_on_plateau", "greedy"}),
      key("warmup_steps", &ScheduleConfig::warmup_steps, "Number of warmup steps.")
          .at_least(0, "steps")
          .share_key("warmup_ratio")
          .when_unset("warmup_ratio applies"),
      key("warmup_ratio", &ScheduleConfig::warmup_ratio, "Warmup as a fraction of all steps.").range(0, 1),
      key("min_lr_ratio", &ScheduleConfig::min_lr_ratio, "Final learning rate as a fraction of the peak.")
          .range(0, 1),
      key("decay_ratio", &ScheduleConfig::decay_ratio,
          "Fraction of all steps during which the rate decays (wsd).")
          .range(0, 1),
      key("decay", &ScheduleConfig::decay,
          "Shape of the decay over its progress p (wsd): 1 - p (linear), (1 + cos(pi p)) / 2 "
          "(cosine) or 1 - sqrt(p) (sqrt)."),
      key("cycles", &ScheduleConfig::cycles,
          "Number of cosine cycles, each starting at the peak (cosine_with_restarts).").at_least(1),
      key("power", &ScheduleConfig::power,
          "Exponent of the fraction of steps that remain (polynomial).").above(0),
  };
}

std::vector<Field> checkpoint_fields() {
  return {
      key("every_steps", &CheckpointConfig::every_steps, "Save a checkpoint every this many steps.")
          .at_least(1, "steps")
          .when_unset("only at the end of the run"),
      key("keep_last", &CheckpointConfig::keep_last, "Number of most recent checkpoints to keep.")
          .at_least(1),
      key("keep_best", &CheckpointConfig::keep_best,
          "Number of checkpoints with the lowest evaluation loss to keep in addition to keep_last.")
          .at_least(0),
  };
}

std::vector<Field> eval_fields() {
  std::vector<Field> early_stopping{
      key("patience", &EarlyStoppingConfig::patience,
          "Number of evaluations without improvement after which training stops. 0 disables early stopping.")
          .at_least(0),
      key("min_delta", &EarlyStoppingConfig::min_delta,
          "Smallest decrease of the evaluation loss that counts as an improvement.")
          .at_least(0),
  };
  return {
      key("every_steps", &EvalConfig::every_steps, "Evaluate every this many steps.")
          .at_least(1, "steps")
          .when_unset("only at the end of the run"),
      key("at_start", &EvalConfig::at_start, "Evaluate once before training."),
      key("samples", &EvalConfig::samples,
          "Number of prompts to answer before and after training, for the report. They come from "
          "the evaluation data, or from the training data if there is none.")
          .range(0, 64),
      key("prompts", &EvalConfig::prompts,
          "grpo, ppo: number of evaluation prompts that are answered greedily and scored in each "
          "evaluation.")
          .at_least(1, "prompts"),
      section("early_stopping", &EvalConfig::early_stopping,
              "Stop training when the evaluation loss no longer improves.", std::move(early_stopping)),
  };
}

std::vector<Field> log_fields() {
  return {
      key("every_steps", &LogConfig::every_steps, "Log metrics every this many steps.")
          .at_least(1, "steps"),
      key("tensorboard", &LogConfig::tensorboard, "Write TensorBoard event files to the run folder."),
  };
}

std::vector<Field> hardware_fields() {
  return {
      key("profile", &HardwareConfig::profile,
          "Hardware profile. auto picks the one that matches the machine (see forge list profiles).")
          .words({"auto"}),
      key("device", &HardwareConfig::device,
          "Device to train on: auto, cpu, cuda, cuda:N, or cuda:NAME for a card by name, such as "
          "cuda:RTX 4090.")
          .words({"auto", "cpu", "cuda"}),
      key("memory_limit", &HardwareConfig::memory_limit,
          "Maximum memory that the run may use on its device: bytes, or a size such as 24GiB.")
          .bytes(1)
          .when_unset("all free memory"),
  };
}

}  // namespace forge
