#include "core/run/event_fields.h"


namespace forge {
namespace {

using enum FieldType;

constexpr EventField kHello[] = {
    {"protocol", integer, true, "Version of the protocol between program and engine."},
    {"torch", text, true, "Version of LibTorch."},
    {"device", text, true, "cpu, or the GPU's name."},
    {"threads", integer, true, "Number of CPU threads used for computation."},
    {"pid", integer, true, "Process id of the engine."},
};
constexpr EventField kLoading[] = {
    {"what", text, true, "Part being loaded: model, adapter or data."},
};
constexpr EventField kLoaded[] = {
    {"what", text, true, "Part that was loaded."},
    {"bytes", integer, true, "Bytes read."},
    {"seconds", number, true, "Time of loading."},
};
constexpr EventField kResumed[] = {
    {"step", integer, true, "Last step in the checkpoint."},
    {"checkpoint", text, true, "Folder of the checkpoint."},
};
constexpr EventField kStep[] = {
    {"step", integer, true, "Optimizer step, starting at 1."},
    {"steps", integer, false, "Number of steps of the whole run."},
    {"epoch", number, true, "Epochs completed, including the fraction of the current one."},
    {"loss", number, true,
     "Mean loss of the steps since the last line. Each step's loss is a mean over its supervised "
     "tokens, or over the unit that its objective averages."},
    {"learning_rate", number, true, "Learning rate of the latest step."},
    {"grad_norm", number, true, "L2 norm of the latest step's gradient, before clipping."},
    {"examples", integer, true, "Examples since the last line."},
    {"tokens", integer, true, "Tokens since the last line, without padding."},
    {"supervised_tokens", integer, true,
     "Tokens since the last line whose prediction was trained."},
    {"tokens_per_second", number, true, "tokens / step_seconds; excludes evaluation and saving."},
    {"step_seconds", number, true, "Time of the steps since the last line."},
    {"run_seconds", number, false,
     "Time of the whole run so far, all its parts included: loading, steps, evaluation and "
     "saving."},
    {"data_wait_seconds", number, true, "Part of step_seconds spent waiting for data."},
    {"peak_memory_bytes", integer, true, "Peak of the counting allocator so far."},
    {"mfu", number, false,
     "Model FLOPs utilization, from 0 to 1. null if not measured."},
    {"loss_scale", number, false, "Loss scale of fp16 training."},
    {"skipped", flag, false, "True if a step was skipped because its gradient was not finite."},
    {"reward_chosen", number, false,
     "Mean reward of the chosen answers since the last line, as the loss compares it."},
    {"reward_rejected", number, false,
     "Mean reward of the rejected answers since the last line, as the loss compares it."},
    {"reward_margin", number, false, "reward_chosen - reward_rejected."},
    {"reward_accuracy", number, false,
     "Share of pairs whose chosen answer has the higher reward; ties count one half. kto: share of "
     "answers on the correct side of the divergence."},
    {"logp_chosen", number, false, "Mean log-probability of the chosen answers."},
    {"logp_rejected", number, false, "Mean log-probability of the rejected answers."},
    {"logp_chosen_change", number, false,
     "Mean log-probability of the chosen answers, minus the reference's."},
    {"logp_rejected_change", number, false,
     "Mean log-probability of the rejected answers, minus the reference's."},
    {"nll", number, false,
     "Negative log-likelihood of the chosen answers, averaged over the tokens of each."},
    {"entropy", number, false,
     "Mean entropy of the predicted distribution at the answers' tokens, in nats."},
    {"token_accuracy", number, false,
     "Share of the answers' tokens that are the most likely prediction."},
    {"kl", number, false,
     "kto: estimated divergence from the reference, in nats per answer. grpo, ppo: divergence from "
     "the base, in nats per token."},
    {"reference_gap_step0", number, false,
     "Largest difference between an answer's log-probability and the reference's in the first "
     "step; 0 except for rounding."},
    {"ratio", number, false,
     "Mean ratio of new to old probability over the trained tokens since the last line."},
    {"ratio_most", number, false, "Largest ratio of a token since the last line."},
    {"kl_old", number, false, "Mean of old minus new log-probability."},
    {"clip_low_share", number, false,
     "Share of tokens without a gradient because the ratio is below 1 − clip_low."},
    {"clip_high_share", number, false,
     "Share of tokens without a gradient because the ratio is above 1 + clip_high."},
    {"dual_clip_share", number, false,
     "Share of tokens without a gradient because the ratio is above dual_clip."},
    {"router_loss", number, false,
     "Mean load-balancing loss of the experts over the tokens. `loss` includes it, multiplied by "
     "the model's coefficient."},
    {"value_loss", number, false, "ppo: loss of the value network per token."},
    {"value_clip_share", number, false,
     "ppo: share of tokens without a gradient because their value moved farther than value.clip."},
    {"time", number, false, "Time of the event, in seconds since 1970."},
};
constexpr EventField kScore[] = {
    {"rollout", integer, true, "Number of the rollout, starting at 0."},
    {"step", integer, true, "Optimizer step that will train on it."},
    {"split", text, true, "train or eval."},
    {"items", list, true,
     "Completions: id, prompt (index of its example), group, sample, ids, finish (stop or length). "
     "With several turns, ids covers all of them."},
};
constexpr EventField kDraw[] = {
    {"rollout", integer, true, "Number of the rollout, starting at 0."},
    {"step", integer, true, "Optimizer steps completed."},
    {"split", text, true, "train or eval."},
    {"adapter", text, true, "Name of the weights. No other weights ever have it."},
    {"folder", text, true, "PEFT folder of the weights."},
    {"waiting", list, true,
     "Names of weights that other rollouts still draw with. They must stay loaded."},
    {"temperature", number, true, "Sampling temperature. 0 takes the most likely token."},
    {"stop_ids", list, true,
     "Tokens that end a draw: end tokens, and the first token of each text of rollout.stop."},
    {"items", list, true, "Completions to draw: ids of the text so far, max_tokens, seed."},
};
constexpr EventField kCall[] = {
    {"rollout", integer, true, "Number of the rollout, starting at 0."},
    {"step", integer, true, "Optimizer step that will train on it."},
    {"split", text, true, "train or eval."},
    {"turn", integer, true, "Number of the model's turn, starting at 1."},
    {"items", list, true,
     "Finished turns: id, prompt (index of its example), group, sample, ids, ended_by (the end "
     "token, or −1)."},
};
constexpr EventField kJudged[] = {
    {"scores", list, true, "Score of each requested text. null if not finite."},
};
constexpr EventField kRollout[] = {
    {"step", integer, true, "First optimizer step that trains on it."},
    {"rollout", integer, true, "Number of the rollout, starting at 0."},
    {"reward", number, true, "Mean reward of the scored completions."},
    {"reward_std", number, true, "Standard deviation of these rewards."},
    {"rewards", object, true,
     "Per reward of the job: mean, std, min, max, unscored. If several have a weight, also "
     "explains, the share of the total's variance."},
    {"unscored", integer, true, "Completions without a reward."},
    {"completions", integer, true, "Completions drawn and kept."},
    {"completion_tokens", object, true,
     "Tokens per completion, without end tokens: mean, std, min, max."},
    {"truncated_share", number, true, "Share of completions that ended at a limit."},
    {"distinct_2", number, true, "Distinct pairs of neighboring tokens, divided by all pairs."},
    {"groups", integer, true, "Groups with at least one completion that counts."},
    {"flat_groups", integer, true,
     "Groups whose rewards are all equal. Nothing is learned from them."},
    {"dropped_groups", integer, true, "Groups with too few scored completions to compare."},
    {"rounds", integer, true, "Rounds of drawing."},
    {"discarded_groups", integer, true, "Groups that rollout.dynamic_sampling discarded."},
    {"slots", integer, true, "Completions drawn concurrently. 0 if a server draws."},
    {"waves", integer, false,
     "Planned number of batches of `slots` completions. 0 if a server draws."},
    {"kv_bytes", integer, false,
     "Peak size of keys and values during drawing. 0 if a server draws."},
    {"provider_version", text, false,
     "Weights that drew: a server's adapter, or step-N of this run."},
    {"advantage", object, false,
     "Advantage of the completions that count: mean, std, min, max. ppo: over their tokens."},
    {"lookup_guessed", integer, false,
     "Tokens that were guessed. Only with rollout.lookup_tokens."},
    {"lookup_right", integer, false, "Guessed tokens that were also drawn."},
    {"staleness", integer, false,
     "Rollouts trained since the weights that drew. Only with rollout.server.max_staleness."},
    {"wait_seconds", number, false,
     "Time that training waited for completions. Only with rollout.server.max_staleness."},
    {"correction", number, false,
     "Mean importance weight of a token. Only with rollout.correction or max_staleness."},
    {"correction_cut_share", number, false,
     "Share of tokens whose weight was limited to rollout.correction."},
    {"sample_seconds", number, true, "Time spent drawing."},
    {"score_seconds", number, true, "Time spent waiting for scores."},
    {"old_seconds", number, true, "Time spent on log-probabilities before the first step."},
    {"base_seconds", number, true, "Time spent on the base model's log-probabilities."},
    {"train_seconds", number, true, "Time of the first step's gradients and update."},
    {"sample_tokens_per_second", number, true, "Drawn tokens / sample_seconds."},
    {"sampler_gap", number, false,
     "Mean absolute difference per token between the decoder's and the trainer's "
     "log-probabilities, with the weights that drew."},
    {"sampler_gap_most", number, false, "Largest such difference."},
    {"sampler_ratio", number, false,
     "Mean ratio of the trainer's to the decoder's probability; 1 except for rounding."},
    {"entropy", number, false, "Mean entropy of the policy over the trained tokens, in nats."},
    {"value_mean", number, false, "ppo: mean prediction of the value network over tokens."},
    {"turns", object, false,
     "The model's turns per completion: mean, std, min, max. Only with tools."},
    {"inserted_tokens", object, false,
     "Tokens per completion inserted by tools: mean, std, min, max."},
    {"tool_failures", integer, false, "Completions for which a tool gave no answer."},
    {"return_mean", number, false, "ppo: mean return over tokens, by lambda_value."},
    {"explained_variance", number, false,
     "ppo: share of the returns' variance that the value network predicted."},
    {"time", number, false, "Time of the event, in seconds since 1970."},
};
constexpr EventField kMeasured[] = {
    {"step", integer, true, "Step, starting at 0."},
    {"warm_up", flag, true, "True for the first steps, which count for memory but not for time."},
    {"op_by_op", flag, true,
     "True if the ops were timed one by one on a GPU, without graphs. Such a step counts for no "
     "rate."},
    {"micro_batches", integer, true, "Micro-batches of the step."},
    {"tokens", integer, true, "Tokens of the step, without padding."},
    {"seconds", number, true, "Time of the step."},
    {"data_wait_seconds", number, true, "Part of seconds spent waiting for data."},
    {"peak_memory_bytes", integer, true, "Peak of the counting allocator so far."},
};
constexpr EventField kOps[] = {
    {"seconds", number, true, "Time of the measured steps, by `clock`."},
    {"clock", text, true,
     "host, or device for events on the GPU's compute stream before and after each op, in steps "
     "without graphs."},
    {"tokens", integer, true, "Tokens of these steps, without padding."},
    {"ops", list, true,
     "Ops, longest first: name, seconds, operations of their matrix products and, on a GPU, the "
     "minimum bytes that their launches move. The last entry is the time between ops."},
    {"best_product_rate", number, true,
     "Operations per second of the fastest single matrix product, in the run's precision."},
};
constexpr EventField kEval[] = {
    {"step", integer, false, "Optimizer steps completed before the evaluation."},
    {"eval_loss", number, true,
     "Mean loss over the supervised tokens of the evaluation split, or over its pairs or answers."},
    {"tokens", integer, false,
     "Tokens evaluated, without padding; with grpo and ppo, tokens drawn."},
    {"supervised_tokens", integer, false, "Tokens that count in the loss."},
    {"seconds", number, false, "Time of the evaluation."},
    {"eval_reward_chosen", number, false, "reward_chosen over the pairs of the evaluation split."},
    {"eval_reward_rejected", number, false, "reward_rejected over the evaluation split."},
    {"eval_reward_margin", number, false, "reward_margin over the evaluation split."},
    {"eval_reward_accuracy", number, false, "reward_accuracy over the evaluation split."},
    {"eval_logp_chosen", number, false, "logp_chosen over the evaluation split."},
    {"eval_logp_rejected", number, false, "logp_rejected over the evaluation split."},
    {"eval_logp_chosen_change", number, false, "logp_chosen_change over the evaluation split."},
    {"eval_logp_rejected_change", number, false, "logp_rejected_change over the evaluation split."},
    {"eval_nll", number, false, "nll over the evaluation split."},
    {"eval_kl", number, false, "kl over the evaluation split."},
    {"eval_reward", number, false, "Mean reward of greedy completions. eval_loss is its negative."},
    {"eval_reward_std", number, false, "Standard deviation of these rewards."},
    {"eval_rewards", object, false, "Per reward, as in a rollout."},
    {"eval_unscored", integer, false, "Completions without a reward."},
    {"eval_completions", integer, false, "Completions drawn."},
    {"eval_completion_tokens", object, false, "Tokens per completion, as in a rollout."},
    {"eval_truncated_share", number, false, "Share of completions that ended at a limit."},
    {"eval_distinct_2", number, false,
     "Distinct pairs of neighboring tokens, divided by all pairs."},
    {"time", number, false, "Time of the event, in seconds since 1970."},
};
constexpr EventField kFp8Gate[] = {
    {"loss", number, true,
     "Mean loss of the base over the supervised tokens, with the weights of its file."},
    {"fp8_loss", number, true, "Mean loss of the base in fp8."},
    {"difference", number, true, "Difference of the two losses, as a share of loss."},
    {"standard_error", number, true,
     "Standard error of the difference, from its scatter over tokens, as a share of loss."},
    {"tolerance", number, true,
     "model.fp8_tolerance. The run ends if the difference plus two standard errors exceeds it."},
    {"split", text, true, "Split of the tokens: train or eval."},
    {"tokens", integer, true, "Tokens read, without padding."},
    {"supervised_tokens", integer, true, "Tokens that count in the loss."},
    {"time", number, false, "Time of the event, in seconds since 1970."},
};
constexpr EventField kProgress[] = {
    {"done", integer, true, "Shapes timed so far."},
    {"of", integer, true, "Number of all shapes."},
};
constexpr EventField kRate[] = {
    {"precision", text, true, "fp32, bf16 or fp16."},
    {"kind", text, true, "Kind of op."},
    {"shape", list, true, "Shape of the op: three numbers."},
    {"amount", number, true, "Operations or bytes of the op."},
    {"seconds", number, true, "Median time."},
};
constexpr EventField kExample[] = {
    {"index", integer, true, "Number of the example in its split, starting at 0."},
    {"tokens", integer, true, "Tokens of the example."},
    {"supervised_tokens", integer, true, "Supervised tokens of the example."},
    {"loss", number, true, "Sum of the loss over its supervised tokens."},
    {"score", number, false, "Score given by a reward model."},
};
constexpr EventField kCheckpoint[] = {
    {"step", integer, true, "Last step in the checkpoint."},
    {"path", text, true, "Folder of the checkpoint."},
    {"bytes", integer, false, "Size of the checkpoint."},
    {"seconds", number, false, "Time of writing."},
};
constexpr EventField kNotice[] = {
    {"level", text, true, "info or warning."},
    {"text", text, true, "Message of one sentence."},
};
constexpr EventField kTokens[] = {
    {"prompts", list, true, "Number of each token's prompt, starting at 0."},
    {"ids", list, true, "The tokens."},
};
constexpr EventField kTextEnd[] = {
    {"prompt", integer, true, "Number of the prompt, starting at 0."},
    {"reason", text, true, "stop or length."},
    {"tokens", integer, false, "Tokens generated."},
    {"seconds", number, false, "Time of generation."},
};
constexpr EventField kTurn[] = {
    {"tokens", integer, true, "Tokens generated."},
    {"prompt_tokens", integer, true,
     "Tokens of the prompt that were computed, because the engine did not hold them yet."},
};
constexpr EventField kDone[] = {
    {"report", object, false, "train: report.json."},
    {"eval_loss", number, false,
     "eval: mean loss over the supervised tokens, or over the unit that the objective averages."},
    {"metrics", object, false, "eval: mean of each metric of the objective."},
    {"tokens", integer, false,
     "eval: tokens evaluated, without padding. generate: tokens generated."},
    {"supervised_tokens", integer, false, "eval: tokens that count in the loss."},
    {"seconds", number, false, "eval: time of the evaluation."},
    {"prompt_tokens", integer, false, "generate: tokens of the prompts."},
    {"prompt_seconds", number, false, "generate: time spent on prompts."},
    {"token_seconds", number, false, "generate: time of all other steps."},
    {"guessed", integer, false, "generate: tokens guessed, with lookup_tokens."},
    {"guessed_right", integer, false, "generate: guessed tokens that were also drawn."},
    {"positions", integer, false, "compare: tokens after which logits were compared."},
    {"largest_difference", number, false, "compare: largest difference of two logits."},
    {"largest_logit", number, false, "compare: largest absolute logit of the first model."},
    {"divergence", number, false,
     "compare: mean Kullback-Leibler divergence from the first model to the second, in nats."},
    {"same_likeliest", number, false,
     "compare: share of positions at which both models prefer the same token."},
    {"torch", text, false, "info: version of LibTorch."},
    {"threads", integer, false, "info: number of CPU threads used for computation."},
    {"cuda", text, false, "info: CUDA version of this engine."},
    {"cuda_devices", integer, false, "info: number of GPUs that the engine sees."},
    {"checks", list, false,
     "info: result for each GPU, or for the processor if there is none: device, and found, which "
     "is ok or describes what failed in a matrix product and a norm."},
    {"collectives", text, false,
     "info: result of NCCL's sum over one rank: ok, or what failed. Empty without CUDA."},
    {"logits", list, false, "logits: a list of logits after each token of each text."},
    {"scores", list, false, "judge: score of each text. null if not finite."},
};
constexpr EventField kError[] = {
    {"kind", text, true,
     "usage, job, fit, environment, data, diverged, gate, internal, stopped or interrupted."},
    {"message", text, true,
     "Error message: fault, place and expectation."},
    {"hint", text, false, "Suggested remedy."},
    {"faults", list, false,
     "Errors of the program: each fault's kind, file, line, column, key, message, hint."},
};

constexpr EventShape kShapes[] = {
    {"hello", "The engine has started.", kHello},
    {"loading", "A part is being loaded.", kLoading},
    {"loaded", "A part is loaded.", kLoaded},
    {"resumed", "The run continues from a checkpoint.", kResumed},
    {"step", "Optimizer steps since the last such line (log.every_steps).", kStep},
    {"score",
     "Asks for scores of completions. The program answers with a line {\"items\": [{parts, total, "
     "reason, text, transcript, prompt_text}]}.", kScore},
    {"draw",
     "Asks for completions from a server. The program answers with a line {\"items\": [{ids, "
     "logps, stopped}]}, and with their seconds if they were requested ahead.", kDraw},
    {"draw_ahead",
     "Announces completions that a later draw event asks for. The program requests them from the "
     "server and answers with a line {}.", kDraw},
    {"call",
     "Asks for a tool's answers to turns. The program answers with a line {\"items\": [{ids, "
     "failure}]}; ids is null if the completion is over.", kCall},
    {"judged",
     "Scores of texts by a reward model, after the program answered a score event with {\"judge\": "
     "NAME, \"texts\": [ids]}.", kJudged},
    {"rollout", "Completions were drawn, scored and trained on once.", kRollout},
    {"measured", "One step of `forge bench`.", kMeasured},
    {"ops", "Time of the steps of `forge bench --ops`, by op.", kOps},
    {"progress", "Progress of `forge bench --kernels`.", kProgress},
    {"rate", "One measurement of `forge bench --kernels`.", kRate},
    {"eval", "One evaluation.", kEval},
    {"fp8_gate",
     "Comparison of the base in fp8 with its file's weights, before the first step.", kFp8Gate},
    {"example", "One example of `forge eval`.", kExample},
    {"checkpoint", "A checkpoint is complete.", kCheckpoint},
    {"notice", "Message for the user.", kNotice},
    {"tokens", "The next token of every text being generated.", kTokens},
    {"text_end", "One generated text is complete.", kTextEnd},
    {"turn",
     "A text of a request with turns is complete, and the engine waits for the next "
     "request.", kTurn},
    {"done", "The work is done.", kDone},
    {"error", "The work failed.", kError},
};

constexpr EventField kReport[] = {
    {"version", integer, true, "Version of this format: 1."},
    {"name", text, true, "Name of the run."},
    {"state", text, true, "finished or stopped."},
    {"profile", text, true, "Name of the hardware profile."},
    {"device", text, true, "Name of the processor or GPU."},
    {"parameters", object, true, "Parameter counts: total, trainable."},
    {"memory", object, true, "predicted_peak_bytes, measured_peak_bytes, lines."},
    {"steps", integer, true, "Optimizer steps completed, by the last line of the metrics."},
    {"step", integer, false, "Optimizer steps completed, including any after that line."},
    {"stopped_early", flag, false,
     "True if training stopped because evaluation no longer improved."},
    {"exported", object, false,
     "Result of the run: path, step, and files (bytes by name)."},
    {"planned_steps", integer, false, "Optimizer steps planned."},
    {"epochs", number, true, "Epochs completed."},
    {"examples", integer, true, "Examples trained on, including repetitions."},
    {"tokens", integer, true, "Tokens trained on, without padding."},
    {"supervised_tokens", integer, true, "Supervised tokens trained on."},
    {"seconds", number, true, "Time from start to end, including earlier parts of a resumed run."},
    {"train_seconds", number, true, "Time of the optimizer steps."},
    {"tokens_per_second", number, true, "tokens / train_seconds."},
    {"time", object, true, "planned_step_seconds (null if not known) and step_seconds."},
    {"loss", object, true, "first, last, smoothed_last."},
    {"eval", object, false, "first, best, last: step and eval_loss of each."},
    {"fp8_gate", object, false, "The event fp8_gate. Only with a base in fp8."},
    {"findings", list, false, "Observations about drawn completions, in sentences."},
    {"warnings", list, false, "Warnings of the plan, in sentences."},
    {"bottleneck", text, true, "Main use of the time, in one sentence."},
    {"data", object, false, "Summary of each split, from the plan."},
    {"samples", list, false, "Texts before and after training: prompt, before, after."},
    {"environment", object, false,
     "Versions and machine: forge, torch, system, processor, cores, …"},
    {"amendments", list, false, "Changes since the plan."},
};

}  // namespace

std::span<const EventShape> event_shapes() { return kShapes; }
std::span<const EventField> report_fields() { return kReport; }

}  // namespace forge
