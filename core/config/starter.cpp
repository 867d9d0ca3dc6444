#include "core/config/emit.h"
#include "core/config/node.h"
#include "core/io/json.h"

namespace forge {
namespace {

constexpr const char* kStarter = R"(# A fine-tuning job. Check it with `forge validate`, see it with `forge plan`, start it with `forge run`.
# A key that is left out has the value that its comment shows. Every key: docs/job.md, or `forge schema --docs`.
version: 1
# name: my-run                   # the file's name; names the run folder
# seed: 42
# output_dir: runs               # relative to this file, like every path here

model:
  path: models/my-model          # a Hugging Face folder (safetensors) or a .gguf file
  # quantization: none           # none | nf4 | fp4 | int8 | fp8: holds the frozen weights smaller

adapter:
  type: lora                     # none trains every weight; qlora is lora on a model in nf4
  rank: 16
  alpha: 32
  dropout: 0
  target_modules: all-linear     # or [q_proj, v_proj], or one regex of whole module paths

objective:
  type: sft                      # sft | pretrain
  train_on: assistant            # assistant | last_assistant | each_assistant | completion | all

data:
  train: train.jsonl             # or several: [a.jsonl, {path: b.jsonl, limit: 1000}]
  # eval: eval.jsonl             # or:
  eval_fraction: 0.05            # this share of the rows is kept for evaluation
  # template: auto               # the model's own chat template, a .jinja file, or a bundled name
  max_length: 1024               # tokens
  # overlong: truncate           # truncate | drop | split | error
  # packing: true

train:
  epochs: 1                      # or max_steps, max_tokens, max_time
  global_batch_size: 32          # examples of one optimizer step
  # micro_batch_size: auto       # examples computed at once
  # precision: auto              # bf16 | fp16 | fp32

optimizer:
  type: adamw
  learning_rate: 2e-4
  # weight_decay: 0

schedule:
  type: cosine                   # constant | linear | cosine | wsd
  warmup_ratio: 0.03

checkpoint:
  every_steps: 100

eval:
  every_steps: 100
  # early_stopping: {patience: 3}
)";

Json json_of(const Node& node) {
  if (node.is_map()) {
    Json object = Json::object();
    for (const Member& member : node.members) object[member.key] = json_of(member.value);
    return object;
  }
  // Numbers and text; the starter contains nothing else.
  Json number = Json::parse(node.scalar, nullptr, /*allow_exceptions=*/false);
  return number.is_number() ? number : Json(node.scalar);
}

}  // namespace

std::string starter_job(const std::string& schema) {
  return (schema.empty() ? "" : "# yaml-language-server: $schema=" + schema + "\n") + kStarter;
}

std::string starter_job_json(const std::string& schema) {
  Json job = Json::object();
  if (!schema.empty()) job["$schema"] = schema;
  job.update(json_of(parse_yaml(kStarter, "starter")));
  return job.dump(2) + "\n";
}

}  // namespace forge
