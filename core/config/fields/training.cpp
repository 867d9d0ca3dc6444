// Keys of what a run does: train, optimizer, schedule, checkpoint, eval, log, hardware.
#include "core/config/field_builder.h"
#include "core/config/fields.h"

namespace forge {

std::vector<Field> train_fields() {
  return {
      key("epochs", &TrainConfig::epochs, "Number of passes over the training data.")
          .above(0)
          .when_unset("1, unless another limit is set")
          .role(KeyRole::limit),
      key("max_steps", &TrainConfig::max_steps, "Stop after this many optimizer steps.")
          .at_least(1)
          .unit("steps")
          .when_unset("no limit")
          .role(KeyRole::limit),
      key("max_tokens", &TrainConfig::max_tokens, "Stop after this many tokens.")
          .at_least(1)
          .unit("tokens")
          .when_unset("no limit")
          .role(KeyRole::limit),
      key("max_time", &TrainConfig::max_time,
          "Stop after this much wall-clock time, including loading and evaluation: seconds, or 90s, 30m, "
          "1h30m.")
          .kind(FieldKind::seconds)
          .above(0)
          .unit("seconds")
          .when_unset("no limit")
          .role(KeyRole::limit),
      key("global_batch_size", &TrainConfig::global_batch_size,
          "Examples per optimizer step, whether packed or not.")
          .automatic()
          .range(1, 1 << 24)
          .unit("examples")
          .when_unset("32, unless global_batch_tokens is set")
          .role(KeyRole::identity),
      key("global_batch_tokens", &TrainConfig::global_batch_tokens,
          "Tokens per optimizer step. An alternative to global_batch_size.")
          .at_least(1)
          .unit("tokens")
          .when_unset("global_batch_size counts")
          .role(KeyRole::identity),
      key("micro_batch_size", &TrainConfig::micro_batch_size,
          "Examples per forward and backward pass. auto picks the smallest batch that reaches full "
          "throughput and fits into memory.")
          .automatic()
          .range(1, 1 << 24)
          .unit("examples")
          .role(KeyRole::execution),
      key("micro_batch_tokens", &TrainConfig::micro_batch_tokens,
          "Tokens per forward and backward pass. With packing, rows are filled up to this; without, as "
          "many consecutive examples are taken as fit.")
          .automatic()
          .at_least(1)
          .unit("tokens")
          .role(KeyRole::execution),
      key("activation_checkpointing", &TrainConfig::activation_checkpointing,
          "What the backward pass recomputes instead of keeping in memory: nothing, the inside of the "
          "MLP, or whole layers. auto keeps what fits and drops single values, cheapest to recompute "
          "first; plans call that chosen.")
          .automatic()
          .role(KeyRole::execution),
      key("activation_offloading", &TrainConfig::activation_offloading,
          "Where the inputs of layers wait for the backward pass when a GPU trains: none keeps them in the card's memory; host copies "
          "each into pinned memory of the host and back, beside the computing of other layers. With activation_checkpointing full they are "
          "all that is kept. auto moves them where nothing else makes the job fit.")
          .automatic()
          .role(KeyRole::execution),
      key("precision", &TrainConfig::precision,
          "Data type of frozen weights, activations and matrix products. auto takes that of the hardware "
          "profile.")
          .automatic()
          .role(KeyRole::identity),
      key("residual", &TrainConfig::residual,
          "Data type of the residual stream, which every layer adds to, in fp16: compute is fp16 itself, "
          "which ends at 65,504; fp32 takes two bytes an element more. auto takes that of the hardware profile. "
          "In bf16 and fp32 the stream has the type of all else.")
          .automatic()
          .role(KeyRole::identity),
      key("master_weights", &TrainConfig::master_weights,
          "Keep an fp32 copy of trained weights when they are computed in bf16 or fp16.")
          .role(KeyRole::identity),
      key("max_grad_norm", &TrainConfig::max_grad_norm, "Clip gradients to this norm. 0 disables clipping.")
          .at_least(0)
          .role(KeyRole::identity),
      key("neftune_alpha", &TrainConfig::neftune_alpha,
          "Scale of the NEFTune noise on embeddings. 0 disables it.")
          .at_least(0)
          .role(KeyRole::identity),
      key("on_nan", &TrainConfig::on_nan,
          "What to do when the loss is not finite: stop the run, or skip the step.")
          .role(KeyRole::identity),
      key("deterministic", &TrainConfig::deterministic,
          "Use only kernels that give bit-identical results every time.")
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
          "The optimizer. adamw_8bit keeps its state in 8 bits. lion keeps a single moment and needs a "
          "learning rate 3 to 10 times smaller than adamw. adafactor keeps a number for each row and column of a matrix. muon orthogonalizes the update of every "
          "linear layer's matrix and of each adapter factor by itself, and trains all else by adamw at the same rate. schedule_free is AdamW "
          "whose weights are averaged in place of a decaying schedule (schedule.type: constant).")
          .later({"sophia"}),
      key("learning_rate", &OptimizerConfig::learning_rate, "Peak learning rate.")
          .above(0)
          .when_unset("sft and pretrain `2e-4`, reward `1e-4` (all weights: `1e-5`), other objectives `1e-5` (all weights: `1e-6`)"),
      key("betas", &OptimizerConfig::betas, "Decay rates of the first and second moment (adamw, adamw_8bit, what muon trains by adamw), of the update and the momentum "
          "(lion), or of the average and the second moment (schedule_free); auto: 0.9 and 0.999, for lion 0.9 and 0.99.")
          .at_least(0)
          .below(1)
          .length(2)
          .automatic(),
      key("eps", &OptimizerConfig::eps, "Term added to the denominator for numerical stability (adamw, adamw_8bit, muon, schedule_free).")
          .above(0),
      key("weight_decay", &OptimizerConfig::weight_decay,
          "Decoupled weight decay. Not applied to norms and biases.")
          .at_least(0),
      key("momentum", &OptimizerConfig::momentum, "Momentum (sgd, muon); auto: 0 of sgd, 0.95 of muon.").at_least(0).below(1).automatic(),
      key("offload", &OptimizerConfig::offload,
          "Where the optimizer's state lies when a GPU trains: none keeps it in the card's memory; host puts it into pinned memory of the "
          "host, which every step reads and writes over PCIe (adamw, adamw_8bit, lion). auto moves it there where nothing else makes the "
          "job fit.")
          .automatic()
          .role(KeyRole::execution),
  };
}

std::vector<Field> schedule_fields() {
  return {
      key("type", &ScheduleConfig::type, "Learning rate schedule after warmup.")
          .later({"reduce_lr_on_plateau", "greedy"}),
      key("warmup_steps", &ScheduleConfig::warmup_steps, "Number of warmup steps.")
          .at_least(0)
          .unit("steps")
          .share_key("warmup_ratio")
          .when_unset("warmup_ratio counts"),
      key("warmup_ratio", &ScheduleConfig::warmup_ratio, "Warmup as a fraction of all steps.").range(0, 1),
      key("min_lr_ratio", &ScheduleConfig::min_lr_ratio, "Final learning rate as a fraction of the peak.")
          .range(0, 1),
      key("decay_ratio", &ScheduleConfig::decay_ratio,
          "Fraction of all steps in which the rate decays (wsd).")
          .range(0, 1),
      key("decay", &ScheduleConfig::decay, "Shape of that decay (wsd): over its progress p, 1 - p, (1 + cos(pi p)) / 2 or 1 - sqrt(p)."),
      key("cycles", &ScheduleConfig::cycles, "Number of cosines, each from the peak down (cosine_with_restarts).").at_least(1),
      key("power", &ScheduleConfig::power, "Exponent of the share of steps that are left (polynomial).").above(0),
  };
}

std::vector<Field> checkpoint_fields() {
  return {
      key("every_steps", &CheckpointConfig::every_steps, "Save a checkpoint every this many steps.")
          .at_least(1)
          .unit("steps")
          .when_unset("only at the end of the run"),
      key("keep_last", &CheckpointConfig::keep_last, "Number of most recent checkpoints to keep.")
          .at_least(1),
      key("keep_best", &CheckpointConfig::keep_best,
          "Number of checkpoints with the lowest evaluation loss to keep in addition.")
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
          .at_least(1)
          .unit("steps")
          .when_unset("only at the end of the run"),
      key("at_start", &EvalConfig::at_start, "Evaluate once before training."),
      key("samples", &EvalConfig::samples,
          "Number of prompts from the evaluation data (or the training data, if there is none) to answer "
          "before and after training, for the report.")
          .range(0, 64),
      key("prompts", &EvalConfig::prompts,
          "grpo: number of evaluation prompts that are answered greedily and scored in each evaluation.")
          .at_least(1)
          .unit("prompts"),
      section("early_stopping", &EvalConfig::early_stopping,
              "Stop training when the evaluation loss no longer improves.", std::move(early_stopping)),
  };
}

std::vector<Field> log_fields() {
  return {
      key("every_steps", &LogConfig::every_steps, "Log metrics every this many steps.")
          .at_least(1)
          .unit("steps"),
      key("tensorboard", &LogConfig::tensorboard, "Write TensorBoard event files to the run folder."),
  };
}

std::vector<Field> hardware_fields() {
  return {
      key("profile", &HardwareConfig::profile,
          "Hardware profile. auto picks the one that matches the machine (see forge list profiles).")
          .words({"auto"}),
      key("device", &HardwareConfig::device,
          "Device to train on: auto, cpu, cuda, cuda:N, or cuda:NAME for a card by name, such as cuda:RTX "
          "4090.")
          .words({"auto", "cpu", "cuda"}),
      key("memory_limit", &HardwareConfig::memory_limit,
          "Maximum memory the run may use: bytes, or a size such as 24GiB.")
          .kind(FieldKind::bytes)
          .at_least(1)
          .unit("bytes")
          .when_unset("what the machine has"),
  };
}

}  // namespace forge
