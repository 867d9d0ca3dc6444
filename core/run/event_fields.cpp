#include "core/run/event_fields.h"

#include <cmath>

namespace forge {
namespace {

using enum FieldType;

constexpr EventField kHello[] = {
    {"protocol", integer, true, "version of the protocol between program and engine"},
    {"torch", text, true, "version of LibTorch"},
    {"device", text, true, "cpu, or the GPU's name"},
    {"threads", integer, true, "threads that arithmetic uses"},
    {"pid", integer, true, "process of the engine"},
};
constexpr EventField kLoading[] = {
    {"what", text, true, "what is being loaded: model, adapter, data"},
};
constexpr EventField kLoaded[] = {
    {"what", text, true, "what was loaded"},
    {"bytes", integer, true, "bytes read"},
    {"seconds", number, true, "time it took"},
};
constexpr EventField kResumed[] = {
    {"step", integer, true, "last step that the checkpoint holds"},
    {"checkpoint", text, true, "folder of the checkpoint"},
};
constexpr EventField kStep[] = {
    {"step", integer, true, "optimizer step, from 1"},
    {"steps", integer, false, "steps of the whole run"},
    {"epoch", number, true, "epochs done, with the fraction of the present one"},
    {"loss", number, true,
     "mean over the steps since the last line, of each over its supervised tokens, or what its objective divides by"},
    {"learning_rate", number, true, "that the newest step used"},
    {"grad_norm", number, true, "L2 norm of the newest step's gradient before clipping"},
    {"examples", integer, true, "examples since the last line"},
    {"tokens", integer, true, "real tokens since the last line"},
    {"supervised_tokens", integer, true, "of them those whose prediction was trained"},
    {"tokens_per_second", number, true, "real tokens / step time without evaluation and saving"},
    {"step_seconds", number, true, "time of the steps since the last line"},
    {"run_seconds", number, false,
     "time of the whole run so far: loading, steps, evaluation, saving, all its parts"},
    {"data_wait_seconds", number, true, "part of it spent waiting for data"},
    {"peak_memory_bytes", integer, true, "peak of the counting allocator so far"},
    {"mfu", number, false, "arithmetic done / what the device can do in the time, from 0 to 1"},
    {"loss_scale", number, false, "of fp16 training"},
    {"skipped", flag, false, "a step was left out because its gradient was not finite"},
    {"reward_chosen", number, false, "of answers that are compared, means over the pairs since the last line: what the loss compares"},
    {"reward_rejected", number, false, "the same of the rejected answer"},
    {"reward_margin", number, false, "the difference of the two"},
    {"reward_accuracy", number, false, "share of pairs whose chosen answer has the higher reward; equal ones count one half. kto: of "
                                       "answers on their side of the divergence"},
    {"logp_chosen", number, false, "log-probability of the chosen answer"},
    {"logp_rejected", number, false, "of the rejected answer"},
    {"logp_chosen_change", number, false, "the chosen answer's log-probability less the reference's"},
    {"logp_rejected_change", number, false, "the rejected answer's"},
    {"nll", number, false, "negative log-likelihood of the chosen answer, the mean over its tokens"},
    {"entropy", number, false, "of the distribution at an answer's token, in nats"},
    {"token_accuracy", number, false, "share of the answers' tokens that are the likeliest"},
    {"kl", number, false, "kto: the estimated divergence from the reference, in nats an answer; grpo: from the base, in nats a token"},
    {"reference_gap_step0", number, false, "largest difference of an answer's log-probability from the reference's in the first step; 0 but for rounding"},
    {"ratio", number, false, "of drawn completions, means over the trained tokens since the last line: new over old probability"},
    {"ratio_most", number, false, "the largest ratio of a token since the last line"},
    {"kl_old", number, false, "old less new log-probability"},
    {"clip_low_share", number, false, "tokens without a gradient because the ratio is below 1 − clip_low"},
    {"clip_high_share", number, false, "above 1 + clip_high"},
    {"dual_clip_share", number, false, "above dual_clip"},
    {"router_loss", number, false, "of a model that balances its experts, the mean over the tokens; `loss` has it times the model's coefficient"},
    {"value_loss", number, false, "ppo: of the value network, a token"},
    {"value_clip_share", number, false, "ppo: tokens whose value moved farther than value.clip and is not pulled on"},
    {"time", number, false, "when, in seconds since 1970"},
};
constexpr EventField kScore[] = {
    {"rollout", integer, true, "number of the rollout, from 0"},
    {"step", integer, true, "optimizer step that will train on it"},
    {"split", text, true, "train or eval"},
    {"items", list, true, "completions: id, prompt (its example), group, sample, ids, finish (stop or length); of several turns whole, all ids"},
};
constexpr EventField kDraw[] = {
    {"rollout", integer, true, "number of the rollout, from 0"},
    {"step", integer, true, "optimizer steps that were done"},
    {"split", text, true, "train or eval"},
    {"adapter", text, true, "name of the weights, which no others ever have"},
    {"folder", text, true, "where they lie, as a PEFT folder"},
    {"waiting", list, true, "names of weights that other rollouts are drawn with: they stay loaded"},
    {"temperature", number, true, "of the draws; 0: the likeliest token"},
    {"stop_ids", list, true, "tokens that end a completion"},
    {"items", list, true, "what is to be drawn: ids that stand before it, max_tokens, seed"},
};
constexpr EventField kCall[] = {
    {"rollout", integer, true, "number of the rollout, from 0"},
    {"step", integer, true, "optimizer step that will train on it"},
    {"split", text, true, "train or eval"},
    {"turn", integer, true, "of the model, from 1"},
    {"items", list, true, "turns that ended: id, prompt (its example), group, sample, ids, ended_by (the end token, or −1)"},
};
constexpr EventField kJudged[] = {
    {"scores", list, true, "of each text that was asked about; null: not finite"},
};
constexpr EventField kRollout[] = {
    {"step", integer, true, "the first optimizer step that trains on it"},
    {"rollout", integer, true, "its number, from 0"},
    {"reward", number, true, "mean over the completions that have one"},
    {"reward_std", number, true, "their standard deviation"},
    {"rewards", object, true, "of each reward of the job: mean, std, min, max, unscored; of several with a weight explains, the share of the total's variance"},
    {"unscored", integer, true, "completions without a reward"},
    {"completions", integer, true, "that were drawn and kept"},
    {"completion_tokens", object, true, "mean, std, min, max, without end tokens"},
    {"truncated_share", number, true, "completions that ended at a limit"},
    {"distinct_2", number, true, "distinct over all pairs of neighbouring tokens"},
    {"groups", integer, true, "with a completion that counts"},
    {"flat_groups", integer, true, "of them those whose rewards are all equal: nothing is learnt from them"},
    {"dropped_groups", integer, true, "with too few scored completions to compare"},
    {"rounds", integer, true, "of drawing"},
    {"discarded_groups", integer, true, "that rollout.dynamic_sampling did not keep"},
    {"slots", integer, true, "completions drawn at once; 0: a server knows"},
    {"waves", integer, false, "of slots completions, as planned; 0: a server knows"},
    {"kv_bytes", integer, false, "the most that keys and values took while drawing; 0: a server knows"},
    {"provider_version", text, false, "the weights that drew: a server's adapter, or step-N of this run"},
    {"advantage", object, false, "mean, std, min, max over the completions that count; ppo: over their tokens"},
    {"lookup_guessed", integer, false, "with rollout.lookup_tokens: tokens that were guessed"},
    {"lookup_right", integer, false, "and those of them that were drawn"},
    {"staleness", integer, false, "with rollout.server.max_staleness: rollouts that were trained since the weights that drew"},
    {"wait_seconds", number, false, "with it: time that training waited for completions"},
    {"correction", number, false, "mean importance weight of a token; with rollout.correction or max_staleness"},
    {"correction_cut_share", number, false, "tokens whose weight was cut off at rollout.correction"},
    {"sample_seconds", number, true, "time of drawing"},
    {"score_seconds", number, true, "of waiting for scores"},
    {"old_seconds", number, true, "of log-probabilities before the first step"},
    {"base_seconds", number, true, "of those of the base"},
    {"train_seconds", number, true, "of the first step's gradients and update"},
    {"sample_tokens_per_second", number, true, "drawn tokens / sample_seconds"},
    {"sampler_gap", number, false, "mean difference of the decoder's log-probabilities and the trainer's with the weights that drew, a token"},
    {"sampler_gap_most", number, false, "the largest"},
    {"sampler_ratio", number, false, "mean of the trainer's probability over the decoder's: 1 but for rounding"},
    {"entropy", number, false, "of the policy, mean over the trained tokens"},
    {"value_mean", number, false, "ppo: what the value network foresaw, mean over tokens"},
    {"turns", object, false, "of the model in a completion: mean, std, min, max; with tools"},
    {"inserted_tokens", object, false, "what tools answered, the same"},
    {"tool_failures", integer, false, "completions that a tool gave no answer for"},
    {"return_mean", number, false, "ppo: what came instead, by lambda_value"},
    {"explained_variance", number, false, "ppo: share of the returns' variance that was foreseen"},
    {"time", number, false, "when, in seconds since 1970"},
};
constexpr EventField kMeasured[] = {
    {"step", integer, true, "from 0"},
    {"warm_up", flag, true, "one of the first steps, which count for memory and not for time"},
    {"op_by_op", flag, true, "its ops were timed one by one on a GPU, without graphs: it counts for no rate"},
    {"micro_batches", integer, true, "of the step"},
    {"tokens", integer, true, "real tokens of the step"},
    {"seconds", number, true, "its time"},
    {"data_wait_seconds", number, true, "part of it spent waiting for data"},
    {"peak_memory_bytes", integer, true, "peak of the counting allocator so far"},
};
constexpr EventField kOps[] = {
    {"seconds", number, true, "of the measured steps, by `clock`"},
    {"clock", text, true, "host, or device: events on the GPU's compute stream before and after each op, in steps without graphs"},
    {"tokens", integer, true, "real tokens of those steps"},
    {"ops", list, true, "name, seconds, operations of its products of matrices and, on a GPU, bytes that its launches must at least move, the longest first; what lies between ops at the end"},
    {"best_product_rate", number, true, "operations a second of the quickest product alone, in the run's precision"},
};
constexpr EventField kEval[] = {
    {"step", integer, false, "optimizer steps done before the evaluation"},
    {"eval_loss", number, true, "mean over the supervised tokens of the evaluation split, or over its pairs or answers"},
    {"tokens", integer, false, "real tokens"},
    {"supervised_tokens", integer, false, "of them those that count"},
    {"seconds", number, false, "time it took"},
    {"eval_reward_chosen", number, false, "as reward_chosen of a step, over the pairs of the evaluation split"},
    {"eval_reward_rejected", number, false, "as of a step"},
    {"eval_reward_margin", number, false, "as of a step"},
    {"eval_reward_accuracy", number, false, "as of a step"},
    {"eval_logp_chosen", number, false, "as of a step"},
    {"eval_logp_rejected", number, false, "as of a step"},
    {"eval_logp_chosen_change", number, false, "as of a step"},
    {"eval_logp_rejected_change", number, false, "as of a step"},
    {"eval_nll", number, false, "as of a step"},
    {"eval_kl", number, false, "as of a step"},
    {"eval_reward", number, false, "mean reward of greedy completions; eval_loss is its negative then"},
    {"eval_reward_std", number, false, "their standard deviation"},
    {"eval_rewards", object, false, "as rewards of a rollout"},
    {"eval_unscored", integer, false, "completions without a reward"},
    {"eval_completions", integer, false, "that were drawn"},
    {"eval_completion_tokens", object, false, "as of a rollout"},
    {"eval_truncated_share", number, false, "as of a rollout"},
    {"eval_distinct_2", number, false, "as of a rollout"},
    {"time", number, false, "when, in seconds since 1970"},
};
constexpr EventField kFp8Gate[] = {
    {"loss", number, true, "of the base as its file has it, mean over the supervised tokens"},
    {"fp8_loss", number, true, "of the base in fp8"},
    {"difference", number, true, "of the two, as a share of the first"},
    {"standard_error", number, true, "of the difference, by how much that of single tokens scatters; a share, too"},
    {"tolerance", number, true, "model.fp8_tolerance: the run ends unless difference and two standard errors are less"},
    {"split", text, true, "train or eval: whose tokens"},
    {"tokens", integer, true, "real tokens"},
    {"supervised_tokens", integer, true, "of them those that count"},
    {"time", number, false, "when, in seconds since 1970"},
};
constexpr EventField kProgress[] = {
    {"done", integer, true, "shapes timed so far"},
    {"of", integer, true, "all shapes"},
};
constexpr EventField kRate[] = {
    {"precision", text, true, "fp32, bf16 or fp16"}, {"kind", text, true, "of the op"},
    {"shape", list, true, "three numbers"},          {"amount", number, true, "operations or bytes"},
    {"seconds", number, true, "median time"},
};
constexpr EventField kExample[] = {
    {"index", integer, true, "number of the example in its split, from 0"},
    {"tokens", integer, true, "its tokens"},
    {"supervised_tokens", integer, true, "its supervised tokens"},
    {"loss", number, true, "sum over its supervised tokens"},
    {"score", number, false, "what a reward model gives it"},
};
constexpr EventField kCheckpoint[] = {
    {"step", integer, true, "last step that it holds"},
    {"path", text, true, "its folder"},
    {"bytes", integer, false, "its size"},
    {"seconds", number, false, "time of writing"},
};
constexpr EventField kNotice[] = {
    {"level", text, true, "info or warning"},
    {"text", text, true, "one sentence"},
};
constexpr EventField kTokens[] = {
    {"prompts", list, true, "of each token the number of its prompt, from 0"},
    {"ids", list, true, "the tokens"},
};
constexpr EventField kTextEnd[] = {
    {"prompt", integer, true, "number of the prompt, from 0"},
    {"reason", text, true, "stop or length"},
    {"tokens", integer, false, "tokens generated"},
    {"seconds", number, false, "time it took"},
};
constexpr EventField kTurn[] = {
    {"tokens", integer, true, "tokens generated"},
    {"prompt_tokens", integer, true, "tokens of the prompt that were computed: those that the engine did not hold"},
};
constexpr EventField kDone[] = {
    {"report", object, false, "train: report.json"},
    {"eval_loss", number, false, "eval: mean over the supervised tokens, or what its objective says"},
    {"metrics", object, false, "eval: means of its objective's metrics"},
    {"tokens", integer, false, "eval: real tokens; generate: tokens generated"},
    {"supervised_tokens", integer, false, "eval: those that count"},
    {"seconds", number, false, "eval: time it took"},
    {"prompt_tokens", integer, false, "generate: tokens of the prompts"},
    {"prompt_seconds", number, false, "generate: time spent on prompts"},
    {"token_seconds", number, false, "generate: time of all other steps"},
    {"guessed", integer, false, "generate: tokens that were guessed, with lookup_tokens"},
    {"guessed_right", integer, false, "generate: and those of them that were drawn"},
    {"positions", integer, false, "compare: tokens behind which logits were compared"},
    {"largest_difference", number, false, "compare: of any two logits"},
    {"largest_logit", number, false, "compare: its magnitude in the first model"},
    {"divergence", number, false, "compare: mean Kullback-Leibler divergence from the first to the second, in nats"},
    {"same_likeliest", number, false, "compare: share of the positions where both prefer the same token"},
    {"torch", text, false, "info: version of LibTorch"},
    {"threads", integer, false, "info: threads that arithmetic uses"},
    {"cuda", text, false, "info: what CUDA this engine has"},
    {"cuda_devices", integer, false, "info: GPUs that it sees"},
    {"checks", list, false, "info: of each GPU, or of the processor without one: device, and found, ok or what went wrong in a product and a norm there"},
    {"collectives", text, false, "info: what NCCL's sum over one rank found: ok, or what went wrong; empty without CUDA"},
    {"scores", list, false, "judge: of each text; null: not finite"},
};
constexpr EventField kError[] = {
    {"kind", text, true,
     "usage, job, fit, environment, data, diverged, gate, internal, stopped or interrupted"},
    {"message", text, true, "what happened, where, and what was expected"},
    {"hint", text, false, "what to do"},
    {"faults", list, false,
     "of the program's errors: each fault's kind, file, line, column, key, message, hint"},
};

constexpr EventShape kShapes[] = {
    {"hello", "the engine has started", kHello},
    {"loading", "a part is being loaded", kLoading},
    {"loaded", "a part is loaded", kLoaded},
    {"resumed", "the run continues from a checkpoint", kResumed},
    {"step", "one optimizer step", kStep},
    {"score", "completions to be scored: the program answers with a line {\"items\": [{parts, total, reason, text, transcript, prompt_text}]}", kScore},
    {"draw", "completions to be drawn by a server: the program answers with a line {\"items\": [{ids, logps, stopped}]}, with the seconds that they took where they were begun before", kDraw},
    {"draw_ahead", "completions that a later event draw asks for: the program begins to have them drawn and answers with a line {}", kDraw},
    {"call", "turns that a tool may answer: the program answers with a line {\"items\": [{ids, failure}]}, ids null where the completion is over", kCall},
    {"judged", "what a reward model says of texts, after the program answered a score event with {\"judge\": NAME, \"texts\": [ids]}", kJudged},
    {"rollout", "completions were drawn, scored and trained on once", kRollout},
    {"measured", "one step of `forge bench`", kMeasured},
    {"ops", "where the time of `forge bench --ops`'s steps went", kOps},
    {"progress", "of `forge bench --kernels`", kProgress},
    {"rate", "one measurement of `forge bench --kernels`", kRate},
    {"eval", "one evaluation", kEval},
    {"fp8_gate", "the base in fp8 was compared with its file's weights, before the first step", kFp8Gate},
    {"example", "one example of `forge eval`", kExample},
    {"checkpoint", "a checkpoint is whole", kCheckpoint},
    {"notice", "something worth a line", kNotice},
    {"tokens", "the next token of every text that is being generated", kTokens},
    {"text_end", "one generated text is complete", kTextEnd},
    {"turn", "a text of a request with turns is complete, and the engine waits for the next request", kTurn},
    {"done", "the work is done", kDone},
    {"error", "the work failed", kError},
};

constexpr EventField kReport[] = {
    {"version", integer, true, "of this format: 1"},
    {"name", text, true, "the run's"},
    {"state", text, true, "finished or stopped"},
    {"profile", text, true, "the hardware profile's name"},
    {"device", text, true, "the processor's or the GPU's name"},
    {"parameters", object, true, "total, trainable"},
    {"memory", object, true, "predicted_peak_bytes, measured_peak_bytes, lines"},
    {"steps", integer, true, "optimizer steps done"},
    {"step", integer, false, "the last step that metrics may not tell of"},
    {"stopped_early", flag, false, "evaluation no longer improved"},
    {"exported", object, false, "path of the result, the bytes of its files by name, and the step it is of"},
    {"planned_steps", integer, false, "optimizer steps planned"},
    {"epochs", number, true, "epochs done"},
    {"examples", integer, true, "examples trained on, repetitions counted"},
    {"tokens", integer, true, "real tokens trained on"},
    {"supervised_tokens", integer, true, "supervised tokens trained on"},
    {"seconds", number, true, "time from start to end, earlier parts of a resumed run included"},
    {"train_seconds", number, true, "time of the optimizer steps"},
    {"tokens_per_second", number, true, "tokens / train_seconds"},
    {"time", object, true, "planned_step_seconds (null: not known) and step_seconds"},
    {"loss", object, true, "first, last, smoothed_last"},
    {"eval", object, false, "first, best, last: each step and eval_loss"},
    {"fp8_gate", object, false, "of a base in fp8: the event of that name"},
    {"findings", list, false, "what a reader should know of drawn completions, in sentences"},
    {"warnings", list, false, "the plan's warnings, in sentences"},
    {"bottleneck", text, true, "where the time went, in one sentence"},
    {"data", object, false, "what the plan says of each split"},
    {"samples", list, false, "texts before and after: prompt, before, after"},
    {"environment", object, false, "versions and machine: forge, torch, system, processor, cores, …"},
    {"amendments", list, false, "what changed since the plan"},
};

Json schema_type(FieldType type) {
  switch (type) {
    case integer:
      return "integer";
    case number:
      return Json::array({"number", "null"});  // NaN and infinities are written as null
    case text:
      return "string";
    case flag:
      return "boolean";
    case object:
      return "object";
    case list:
      return "array";
  }
  return nullptr;
}

bool has_type(const Json& value, FieldType type) {
  switch (type) {
    case integer:
      return value.is_number_integer();
    case number:
      return value.is_number() || value.is_null();
    case text:
      return value.is_string();
    case flag:
      return value.is_boolean();
    case object:
      return value.is_object();
    case list:
      return value.is_array();
  }
  return false;
}

void add_fields(Json& schema, std::span<const EventField> fields) {
  for (const EventField& field : fields) {
    schema["properties"][field.name] = {{"type", schema_type(field.type)}, {"description", field.meaning}};
    if (field.required) schema["required"].push_back(field.name);
  }
}

}  // namespace

std::span<const EventShape> event_shapes() { return kShapes; }

Json event_schema() {
  Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"title", "forge event"},
              {"description", "One line of metrics.jsonl or of the engine's event stream"},
              {"oneOf", Json::array()}};
  for (const EventShape& shape : kShapes) {
    Json one{{"title", shape.name}, {"description", shape.meaning}, {"type", "object"}};
    one["properties"]["event"] = {{"const", shape.name}};
    one["required"] = Json::array({"event"});
    add_fields(one, shape.fields);
    schema["oneOf"].push_back(std::move(one));
  }
  return schema;
}

Json report_schema() {
  Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"title", "forge report"},
              {"description", "report.json of a run folder"},
              {"type", "object"},
              {"properties", Json::object()},
              {"required", Json::array()}};
  add_fields(schema, kReport);
  return schema;
}

const char* name_of(FieldType type) {
  constexpr const char* kNames[] = {"a whole number", "a number or null", "a text",
                                    "true or false",  "an object",        "a list"};
  return kNames[static_cast<int>(type)];
}

std::vector<std::string> field_faults(const std::string& name, std::span<const EventField> fields,
                                      const Json& object) {
  std::vector<std::string> faults;
  for (const EventField& field : fields) {
    auto found = object.find(field.name);
    if (found == object.end()) {
      if (field.required) faults.push_back(name + ": " + field.name + " is missing");
    } else if (!has_type(*found, field.type) && (field.required || !found->is_null())) {
      faults.push_back(name + ": " + field.name + " is not " + name_of(field.type));
    }
  }
  return faults;
}

std::vector<std::string> event_faults(const Json& event) {
  if (!event.is_object() || !event.contains("event") || !event["event"].is_string())
    return {"an event is an object with the text \"event\""};
  const std::string name = event["event"].get<std::string>();
  for (const EventShape& shape : kShapes)
    if (name == shape.name) return field_faults(name, shape.fields, event);
  return {"unknown event \"" + name + "\""};
}

}  // namespace forge
