#include <algorithm>

#include "core/job/emit.h"
#include "core/job/field.h"
#include "core/job/node.h"
#include "core/lib/base/text.h"
#include "core/lib/io/json.h"

namespace forge {
namespace {

constexpr const char* kStarter =
    R"(# A fine-tuning job. Check it with `forge validate`, plan it with `forge plan`, start it with
# `forge run`. Keys in comments are optional. All keys: docs/job.md, or `forge schema --docs`.
version: 1
# name: my-run                   # default: this file's name; also names the run folder
# seed: 42
# output_dir: runs               # relative to this file, like all paths here

model:
  path: models/my-model          # Hugging Face folder (safetensors) or .gguf file; instead,
                                 # model.repo names one of the Hugging Face hub (forge fetch)
  # quantization: none           # none | nf4 | fp4 | int8 | fp8, for frozen weights

adapter:
  type: lora                     # none trains all weights; qlora is lora on a model in nf4
  rank: 16
  alpha: 32
  dropout: 0
  target_modules: all-linear     # or [q_proj, v_proj], or a regex for full module paths

objective:
  type: OBJECTIVE
  train_on: assistant            # assistant | last_assistant | each_assistant | completion | all

rewards:                         # score each completion; see docs/rewards.md
  - {type: math}

rollout:
  prompts_per_step: 8
  samples_per_prompt: 8          # completions per prompt, compared with each other
  max_new_tokens: 256

data:
  train: train.jsonl             # ROWS; or several: [a.jsonl, {path: b.jsonl, limit: 1000}]
  # eval: eval.jsonl             # instead of eval_fraction
  eval_fraction: 0.05            # fraction of the rows held out for evaluation
  # template: auto               # chat template: the model's own, a .jinja file, or a bundled name
  max_length: 1024               # tokens per example
  # overlong: truncate           # truncate | drop | split | error
  # packing: true

train:
  epochs: 1                      # or max_steps, max_tokens, max_time
  global_batch_size: 32          # examples per optimizer step
  # micro_batch_size: auto       # examples per forward and backward pass
  # precision: auto              # bf16 | fp16 | fp32

optimizer:
  type: adamw
  learning_rate: 2e-4
  # weight_decay: 0

schedule:
  type: cosine                   # forge list schedules
  warmup_ratio: 0.03

checkpoint:
  every_steps: 100

eval:
  every_steps: 100
  # early_stopping: {patience: 3}
)";

// Returns the line of the objective, with the others in a comment.
std::string type_line(const std::string& objective) {
  std::string line = "  type: " + objective;
  line.resize(std::max<size_t>(line.size() + 1, 33), ' ');
  return line + "# " + join(objective_names(), " | ");
}

Json json_of(const Node& node) {
  if (node.is_map()) {
    Json object = Json::object();
    for (const Member& member : node.members) object[member.key] = json_of(member.value);
    return object;
  }
  if (node.is_list()) {
    Json list = Json::array();
    for (const Node& item : node.items) list.push_back(json_of(item));
    return list;
  }
  // The starter contains only numbers and text.
  Json number = Json::parse(node.scalar, nullptr, /*allow_exceptions=*/false);
  return number.is_number() ? number : Json(node.scalar);
}

// Returns a description of the rows that an objective learns from.
std::string rows_of(const std::string& objective) {
  for (const char* pairs : {"dpo", "orpo", "simpo", "cpo", "reward"})
    if (objective == pairs) return "rows with prompt, chosen and rejected";
  if (objective == "kto") return "rows with prompt, completion and label";
  if (objective == "sft") return "rows with messages, or with prompt and completion";
  return objective == "pretrain" ? "rows with text"
                                 : "rows with prompt and the columns of the rewards";
}

// Returns the starter without the sections and lines that do not apply to the objective.
std::string starter_text(const std::string& objective) {
  const bool texts = objective == "sft" || objective == "pretrain";
  const bool draws = rows_of(objective) == rows_of("grpo");
  std::string text;
  bool skipping = false;
  for (std::string line : split(kStarter, '\n')) {
    if (!line.empty() && line[0] != ' ') skipping = !draws && (starts_with(line, "rewards:") || starts_with(line, "rollout:"));
    const bool other = (objective != "sft" && starts_with(line, "  train_on:")) ||
                       (draws && (starts_with(line, "  global_batch_size:") || starts_with(line, "  # overlong:")));
    if (skipping || other) continue;
    if (starts_with(line, "  type: OBJECTIVE")) line = type_line(objective);
    if (const size_t at = line.find("ROWS"); at != std::string::npos) line.replace(at, 4, rows_of(objective));
    if (!texts && starts_with(line, "  learning_rate:")) line = "  learning_rate: 2e-5";
    text += line + "\n";
  }
  text.pop_back();
  return text;
}

}  // namespace

std::vector<std::string> objective_names() { return accepted_words(*find_field("objective.type")); }

std::string starter_job(const std::string& schema, const std::string& objective) {
  return (schema.empty() ? "" : "# yaml-language-server: $schema=" + schema + "\n") + starter_text(objective);
}

std::string starter_job_json(const std::string& schema, const std::string& objective) {
  Json job = Json::object();
  if (!schema.empty()) job["$schema"] = schema;
  job.update(json_of(parse_yaml(starter_text(objective), "starter")));
  return job.dump(2) + "\n";
}

}  // namespace forge
