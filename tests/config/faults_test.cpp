// Broken job files and the exact message for each: what is wrong, where, and what to write.
#include <algorithm>

#include "core/job/diagnostics.h"
#include "core/job/load.h"
#include "tests/test.h"

using namespace forge;

namespace {

struct Case {
  const char*
      text;  // appended to the shortest job (lines 1 to 3), or a whole file if it begins with "!"
  const char* fault;  // every line of the message
};

// The shortest job; a case's own first line is line 4.
constexpr const char* kBase = "model: m\ndata:\n  train: a.jsonl\n";

const Case kCases[] = {
    // keys
    {"sede: 1\n", "job.yaml:4:1: sede: unknown key (did you mean \"seed\"?)"},
    {"train: {learing_rate: 1}\n",
     "job.yaml:4:9: train.learing_rate: unknown key (known here: epochs, max_steps, max_tokens, max_time, "
     "global_batch_size, global_batch_tokens, micro_batch_size, micro_batch_tokens, activation_checkpointing, "
     "activation_offloading, precision, residual, master_weights, max_grad_norm, neftune_alpha, on_nan, deterministic, threads)"},
    {"train: {learning_rate: 1}\n",
     "job.yaml:4:9: train.learning_rate: unknown key (it is optimizer.learning_rate)"},
    {"train: {epoch: 1}\n", "job.yaml:4:9: train.epoch: unknown key (did you mean \"epochs\"?)"},
    {"adapter: {type: lora, lora_r: 8}\n",
     "job.yaml:4:23: adapter.lora_r: unknown key (lora_r is adapter.rank here)"},
    {"lora_rank: 8\n",
     "job.yaml:4:1: lora_rank: unknown key (lora_rank is adapter.rank here)"},
    {"num_train_epochs: 3\n",
     "job.yaml:4:1: num_train_epochs: unknown key (num_train_epochs is train.epochs here)"},
    {"gradient_accumulation_steps: 4\n",
     "job.yaml:4:1: gradient_accumulation_steps: unknown key (gradient_accumulation_steps is "
     "train.global_batch_size here; it is micro-batch × accumulation × GPUs)"},
    {"sequence_len: 4\n",
     "job.yaml:4:1: sequence_len: unknown key (sequence_len is data.max_length here)"},
    {"bf16: true\n",
     "job.yaml:4:1: bf16: unknown key (bf16 is train.precision here; write bf16)"},
    {"trust_remote_code: true\n",
     "job.yaml:4:1: trust_remote_code: unknown key (trust_remote_code has no counterpart: "
     "forge runs no "
     "code from model folders)"},
    {"resume_from_checkpoint: true\n",
     "job.yaml:4:1: resume_from_checkpoint: unknown key (resume_from_checkpoint has no counterpart: forge run continues an unfinished run by itself)"},
    {"log: {every_stepz: 1}\n", "job.yaml:4:7: log.every_stepz: unknown key (did you mean \"every_steps\"?)"},
    {"every_steps: 10\n",
     "job.yaml:4:1: every_steps: unknown key (it is checkpoint.every_steps, eval.every_steps or "
     "log.every_steps)"},
    {"hardware: {zzz: 1}\n",
     "job.yaml:4:12: hardware.zzz: unknown key (known here: profile, device, memory_limit)"},
    {"eval: {early_stopping: {patiense: 1}}\n",
     "job.yaml:4:25: eval.early_stopping.patiense: unknown key (did you mean \"patience\"?)"},
    {"!model: m\ndata: {train: [{path: a, fromat: text}]}\n",
     "job.yaml:2:26: data.train[0].fromat: unknown key (did you mean \"format\"?)"},
    // what is missing
    {"!seed: 1\n",
     "job.yaml:1:1: model.path: missing (The base model: a Hugging Face folder with safetensors, or a .gguf "
     "file.)\n"
     "job.yaml:1:1: data.train: missing (Training data: a file, folder or glob pattern, a list of them, or a "
     "list of "
     "{path, format, …}.)"},
    {"!model: {quantization: none}\ndata: {train: a}\n",
     "job.yaml:1:8: model.path: missing (The base model: a Hugging Face folder with safetensors, or a .gguf "
     "file.)"},
    {"!model: m\ndata: {train: []}\n",
     "job.yaml:2:15: data.train: the list is empty (Training data: a file, folder or glob pattern, a list of "
     "them, or "
     "a list of {path, format, …}.)"},
    {"!model: m\ndata: {train: [{format: text}]}\n",
     "job.yaml:2:16: data.train[0].path: missing (A data file (.jsonl, .json, .csv, .tsv, .txt, .md "
     "or .parquet; text files also as .gz or .zst), a folder of them, or a glob pattern such as data/*.jsonl.)"},
    {"!", "job.yaml:1:1: the file is empty, expected a job (forge init writes a job to start from)"},
    {"!# nothing\n",
     "job.yaml:1:1: the file is empty, expected a job (forge init writes a job to start from)"},
    {"!just text\n", "job.yaml:1:1: just text, expected keys (forge init writes a job to start from)"},
    {"!- a\n- b\n", "job.yaml:1:1: a list, expected keys (forge init writes a job to start from)"},
    // numbers
    {"adapter: {type: lora, rank: 010}\n",
     "job.yaml:4:29: adapter.rank: 010 begins with a zero, which some YAML readers take as base 8 (write it "
     "without the "
     "zero)"},
    {"adapter: {type: lora, rank: 0x10}\n",
     "job.yaml:4:29: adapter.rank: 0x10 is not a whole number (write it in base 10)"},
    {"data.max_length: 1\n",
     "job.yaml:4:1: data.max_length: unknown key (write it as max_length: under data:)"},
    {"train: {max_tokens: 1_000_000}\n",
     "job.yaml:4:21: train.max_tokens: 1_000_000 is not a whole number (write digits only: 1000000)"},
    {"train: {max_steps: 1.5}\n", "job.yaml:4:20: train.max_steps: 1.5 is not a whole number"},
    {"train: {max_steps: 0}\n", "job.yaml:4:20: train.max_steps: 0 is out of range, expected 1 or more (leave it out)"},
    {"train: {max_steps: 1e30}\n", "job.yaml:4:20: train.max_steps: 1e30 is not a whole number"},
    {"seed: 99999999999999999999\n", "job.yaml:4:7: seed: 99999999999999999999 does not fit 64 bits"},
    {"seed: -1\n", "job.yaml:4:7: seed: -1 is out of range, expected 0 to 4294967295 (leave it out)"},
    {"seed: \"7\"\n", "job.yaml:4:7: seed: \"7\" is text, expected a whole number (remove the quotes)"},
    {"seed: [1]\n", "job.yaml:4:7: seed: a list, expected a whole number"},
    {"optimizer: {learning_rate: .nan}\n",
     "job.yaml:4:28: optimizer.learning_rate: .nan is not a number (it must be finite)"},
    {"optimizer: {learning_rate: -.inf}\n",
     "job.yaml:4:28: optimizer.learning_rate: -.inf is not a number (it must be finite)"},
    {"optimizer: {learning_rate: 0}\n",
     "job.yaml:4:28: optimizer.learning_rate: 0 is out of range, expected above 0"},
    {"optimizer: {learning_rate: 2e-4x}\n", "job.yaml:4:28: optimizer.learning_rate: 2e-4x is not a number"},
    {"optimizer: {learning_rate: 1e400}\n",
     "job.yaml:4:28: optimizer.learning_rate: 1e400 is outside what a number can hold"},
    {"data: 5\n", "job.yaml:4:1: the key \"data\" appears twice, first in line 2 (remove one of them)"},
    {"optimizer: {betas: [0.9]}\n", "job.yaml:4:20: optimizer.betas: a list of 1, expected 2"},
    {"optimizer: {betas: [0.9, 1.0]}\n",
     "job.yaml:4:26: optimizer.betas: 1.0 is out of range, expected 0 to below 1"},
    {"optimizer: {betas: 0.9}\n", "job.yaml:4:20: optimizer.betas: 0.9, expected a list of 2"},
    {"schedule: {warmup_steps: 0.1}\n",
     "job.yaml:4:26: schedule.warmup_steps: 0.1 is not a whole number (for a share of all steps use "
     "schedule.warmup_ratio)"},
    {"schedule: {warmup_ratio: 3%}\n",
     "job.yaml:4:26: schedule.warmup_ratio: 3% is not a number (write a share as a number, 5% as 0.05)"},
    {"schedule: {warmup_ratio: 100}\n",
     "job.yaml:4:26: schedule.warmup_ratio: 100 is out of range, expected 0 to 1"},
    {"hardware: {memory_limit: 24 gigs}\n",
     "job.yaml:4:26: hardware.memory_limit: 24 gigs is not a size (write bytes, or 512MiB, 24GiB, 80GB)"},
    {"train: {max_time: 1 week}\n",
     "job.yaml:4:19: train.max_time: 1 week is not a time (write seconds, or 90s, 30m, 1h30m)"},
    {"train: {threads: all}\n",
     "job.yaml:4:18: train.threads: all is not a whole number, expected auto or one"},
    {"version: 2\n", "job.yaml:4:10: version: 2 is out of range, expected 1"},
    // switches, texts, choices
    {"train: {deterministic: yes}\n",
     "job.yaml:4:24: train.deterministic: yes is neither true nor false (write true)"},
    {"train: {deterministic: off}\n",
     "job.yaml:4:24: train.deterministic: off is neither true nor false (write false)"},
    {"train: {deterministic: \"true\"}\n",
     "job.yaml:4:24: train.deterministic: \"true\" is text, expected true or false (remove the quotes)"},
    {"name: 2026\n", "job.yaml:4:7: name: 2026 is a number, expected text (write \"2026\")"},
    {"name: true\n", "job.yaml:4:7: name: true is a switch, expected text (write \"true\")"},
    {"name: a/b\n", "job.yaml:4:7: name: \"a/b\" cannot name a folder (use no /, no leading -, and not . or ..)"},
    {"name: ..\n", "job.yaml:4:7: name: \"..\" cannot name a folder (use no /, no leading -, and not . or ..)"},
    {"name: ''\n", "job.yaml:4:7: name: the text is empty"},
    {"name: \"a\\eb\"\n", "job.yaml:4:7: name: \"a\\x1bb\" cannot name a folder (use no /, no leading -, and not . or ..)"},
    {"output_dir: \"a\\nb\"\n",
     "job.yaml:4:13: output_dir: \"a\\x0ab\": a line break in a path, expected none (write it on one line; rename a file whose name "
     "has one)"},
    {"\"see\\nd\": 1\n", "job.yaml:4:1: see\\x0ad: unknown key (did you mean \"seed\"?)"},
    {"output_dir: {a: b}\n", "job.yaml:4:13: output_dir: a map of keys, expected text"},
    {"train: {precision: bf61}\n",
     "job.yaml:4:20: train.precision: \"bf61\" is not one of fp32, bf16, fp16 or auto (did you mean "
     "\"bf16\"?)"},
    {"train: {precision: float16}\n",
     "job.yaml:4:20: train.precision: \"float16\" is not one of fp32, bf16, fp16 or auto (write fp16)"},
    {"objective: {type: simpo, reference: base}\n",
     "job.yaml:4:37: objective.reference: has no effect: it belongs to dpo or kto, not to simpo (remove it)"},
    {"objective: {gamma: 1}\n", "job.yaml:4:20: objective.gamma: has no effect: it belongs to simpo, not to sft (remove it)"},
    {"objective: {type: dpo, loss: hinge, label_flip: 0.1}\n",
     "job.yaml:4:49: objective.label_flip: has no effect: dpo's loss hinge takes labels as they are (remove it)"},
    {"objective: {type: dpo, loss: exo_pair}\n",
     "job.yaml:1:1: objective.label_flip: exo_pair needs labels that are not certain, expected a share above 0 "
     "(write label_flip: 0.001)"},
    {"objective: {type: dpo, reference: base}\n",
     "job.yaml:4:35: objective.reference: without an adapter every weight is trained, so the base is the model as it "
     "starts (write reference: start, or remove it)"},
    {"objective: {type: dpo, train_on: all}\n",
     "job.yaml:4:34: objective.train_on: has no effect: it belongs to sft or pretrain, not to dpo (remove it)"},
    {"objective: ipo\n",
     "job.yaml:4:12: objective.type: \"ipo\" is not one of sft, pretrain, dpo, simpo, orpo, cpo, kto, reward, grpo, ppo, dr_grpo, "
     "dapo, gspo, cispo, sapo, gepo, rloo, reinforce++ or vapo (write dpo, with objective.loss: ipo)"},
    {"objective: {type: kto, gamma: 1}\n",
     "job.yaml:4:31: objective.gamma: has no effect: it belongs to simpo, not to kto (remove it)"},
    {"objective: {type: reward, beta: 1}\n",
     "job.yaml:4:33: objective.beta: has no effect: it belongs to dpo, simpo, cpo or kto, not to reward (remove it)"},
    {"objective: {type: kto}\ntrain: {global_batch_size: 1}\n",
     "job.yaml:5:28: train.global_batch_size: kto compares the answers of a step with each other's prompts, expected at least 2 "
     "(use 16 or more: the estimate is a mean over the step)"},
    {"adapter: {type: full}\n",
     "job.yaml:4:17: adapter.type: \"full\" is not one of none, lora or qlora (write none)"},
    {"adapter: {type: dora}\n",
     "job.yaml:4:17: adapter.type: \"dora\" is not one of none, lora or qlora (write lora, with adapter.use_dora: "
     "true)"},
    {"train: {activation_offloading: ram}\n", "job.yaml:4:32: train.activation_offloading: \"ram\" is not one of none, host or auto"},
    {"optimizer: {offload: disk}\n", "job.yaml:4:22: optimizer.offload: \"disk\" is not one of none, host or auto"},
    {"optimizer: {offload: cpu}\n", "job.yaml:4:22: optimizer.offload: \"cpu\" is not one of none, host or auto (write host)"},
    {"optimizer: adamw_torch\n",
     "job.yaml:4:12: optimizer.type: \"adamw_torch\" is not one of adamw, adamw_8bit, lion, sgd, adafactor, muon or schedule_free (write adamw)"},
    {"schedule: [linear]\n",
     "job.yaml:4:11: schedule: a list, expected keys (known here: type, warmup_steps, warmup_ratio, "
     "min_lr_ratio, "
     "decay_ratio, decay, cycles, power)"},
    {"train: 3\n",
     "job.yaml:4:8: train: 3, expected keys (known here: epochs, max_steps, max_tokens, max_time, "
     "global_batch_size, "
     "global_batch_tokens, micro_batch_size, micro_batch_tokens, activation_checkpointing, activation_offloading, precision, "
     "residual, master_weights, "
     "max_grad_norm, neftune_alpha, on_nan, deterministic, threads)"},
    {"hardware: {device: gpu}\n",
     "job.yaml:4:20: hardware.device: \"gpu\" is not auto, cpu, cuda, cuda:N or cuda:NAME (write cuda)"},
    // adapter
    {"adapter: {rank: 8}\n",
     "job.yaml:4:17: adapter.rank: has no effect: adapter.type is none (write adapter.type: lora, or remove "
     "it)"},
    {"!model: {path: m, quantization: nf4}\ndata: {train: a}\n",
     "job.yaml:1:32: model.quantization: nf4 weights cannot be trained themselves (write adapter: lora)"},
    {"!model: {path: m, quantization: nf4, fp8_tolerance: 0.01}\nadapter: lora\ndata: {train: a}\n",
     "job.yaml:1:52: model.fp8_tolerance: needs quantization fp8, is nf4"},
    {"!model: {path: m, quantization: int8, double_quantization: true}\nadapter: lora\ndata: {train: a}\n",
     "job.yaml:1:59: model.double_quantization: needs quantization nf4 or fp4, is int8"},
    {"!model: {path: m, quantization: fp8}\nadapter: lora\nobjective: grpo\nrewards: [{type: exact}]\ndata: {train: a}\n",
     "job.yaml:1:32: model.quantization: fp8 rounds activations in training but not in drawing, so grpo would compare log-probabilities of two "
     "policies (write nf4, int8 or none)"},
    {"!model: {path: m, quantization: fp8}\nadapter: {type: lora, use_dora: true}\ndata: {train: a}\n",
     "job.yaml:2:33: adapter.use_dora: DoRA needs the norms of weights that fp8 never decodes (remove it, or write model.quantization: nf4)"},
    {"!model: {path: m, quantization: nf4}\nadapter: {type: lora, init: pissa}\ndata: {train: a}\n",
     "job.yaml:2:29: adapter.init: pissa takes its factors out of the base weights, and nf4 blocks cannot "
     "be changed to match (write "
     "init: default, or model.quantization: none)"},
    {"adapter: {type: lora, target_modules: '*_proj'}\n",
     "job.yaml:4:39: adapter.target_modules: the regex \"*_proj\" has nothing to repeat before * (write "
     ".*_proj for any "
     "beginning)"},
    {"adapter: {type: lora, target_modules: '.*(q|v'}\n",
     "job.yaml:4:39: adapter.target_modules: the regex \".*(q|v\" has an unclosed ("},
    {"adapter: {type: lora, target_modules: ['.*q_proj']}\n",
     "job.yaml:4:39: adapter.target_modules: \".*q_proj\" is not a module name (write a regex alone, not in "
     "a list; "
     "list names one by one)"},
    {"adapter: {type: lora, target_modules: [all-linear, lm_head]}\n",
     "job.yaml:4:39: adapter.target_modules: all-linear cannot be combined with other names"},
    {"adapter: {type: lora, target_modules: q_proj}\n",
     "job.yaml:4:39: adapter.target_modules: the text \"q_proj\" is read as one regex, which matches no "
     "module's whole path "
     "(write the names as a list: [q_proj])"},
    {"adapter: {type: lora, target_modules: 'q_proj,v_proj'}\n",
     "job.yaml:4:39: adapter.target_modules: the text \"q_proj,v_proj\" is read as one regex, which matches no "
     "module's "
     "whole path (write the names as a list: [q_proj, v_proj])"},
    {"adapter: {type: lora, target_modules: []}\n",
     "job.yaml:4:39: adapter.target_modules: the list is empty (write adapter: none to train without an "
     "adapter)"},
    {"adapter: {type: lora, rank_pattern: {'q[': 4}}\n",
     "job.yaml:4:37: adapter.rank_pattern: the regex \"q[\" has an unclosed ["},
    {"adapter: {type: lora, rank_pattern: {q_proj: 0}}\n",
     "job.yaml:4:46: adapter.rank_pattern: 0 is out of range, expected 1 to 65536"},
    {"adapter: {type: lora, layers_to_transform: [1, 2, 1]}\n",
     "job.yaml:4:44: adapter.layers_to_transform: 1 appears twice"},
    {"adapter: {type: lora, init: pissa, init_from: x}\n",
     "job.yaml:4:29: adapter.init: has no effect: adapter.init_from gives the adapter's weights (remove it)"},
    {"adapter: {type: lora, eva: {tau: 0.9}}\n",
     "job.yaml:4:34: adapter.eva.tau: has no effect: adapter.init is default (write init: eva)"},
    {"adapter: {type: lora, init: eva, eva: {tau: 1.5}}\n",
     "job.yaml:4:45: adapter.eva.tau: 1.5 is out of range, expected 0 to 1"},
    // batch, data, evaluation, schedule
    {"train: {global_batch_size: 8, global_batch_tokens: 4096}\n",
     "job.yaml:4:52: train.global_batch_tokens: train.global_batch_size is set too (keep one of them)"},
    {"train: {global_batch_size: 8, micro_batch_size: 16}\n",
     "job.yaml:4:49: train.micro_batch_size: 16 is more than global_batch_size, 8"},
    {"objective: {type: sft, train_on: completion}\n", "no error"},
    {"!model: m\nobjective: {train_on: completion}\ndata: {train: {path: a, format: messages}}\n",
     "job.yaml:3:33: data.train[0].format: messages has no completion to train on (completion needs "
     "prompt_completion or "
     "alpaca rows; for chats write train_on: assistant)"},
    {"!model: m\ndata: {train: {path: a, format: text}}\n",
     "job.yaml:2:33: data.train[0].format: text has no assistant to train on (write objective: pretrain, or "
     "objective.train_on: all)"},
    {"objective: {type: pretrain, train_on: assistant}\n",
     "job.yaml:4:39: objective.train_on: has no effect: pretrain trains on every token (remove it)"},
    {"!model: m\nobjective: pretrain\ndata: {train: a, max_prompt_length: 9}\n",
     "job.yaml:3:37: data.max_prompt_length: has no effect: everything is trained, so a row has no prompt (set "
     "data.max_length)"},
    {"!model: m\ndata: {train: a, max_completion_length: 9, overlong: split}\n",
     "job.yaml:2:41: data.max_completion_length: has no effect: split cuts parts of data.max_length (use truncate, "
     "drop or error)"},
    {"!model: m\ndata: {train: a, eval: b, eval_fraction: 0.1}\n",
     "job.yaml:2:42: data.eval_fraction: data.eval is set too (keep one of them)"},
    {"!model: m\ndata: {train: a, overlong: drop, truncation_side: left}\n",
     "job.yaml:2:51: data.truncation_side: has no effect: data.overlong is drop, not truncate (remove it)"},
    {"eval: {every_steps: 10}\n",
     "job.yaml:4:21: eval.every_steps: has no effect: there is no evaluation data (set data.eval or "
     "data.eval_fraction)"},
    {"eval: {early_stopping: {patience: 3}}\n",
     "job.yaml:4:35: eval.early_stopping.patience: has no effect: there is no evaluation data (set data.eval "
     "or "
     "data.eval_fraction)"},
    {"checkpoint: {keep_best: 2}\n",
     "job.yaml:4:25: checkpoint.keep_best: has no effect: there is no evaluation data (set data.eval or "
     "data.eval_fraction)"},
    {"optimizer: {type: adafactor, momentum: 0.9}\n",
     "job.yaml:4:40: optimizer.momentum: has no effect: adafactor has no first moment (remove it)"},
    {"optimizer: schedule_free\n",
     "job.yaml:4:12: optimizer.type: schedule_free averages its weights instead of lowering the rate, and the schedule is cosine "
     "(write schedule: constant; it may warm up)"},
    {"schedule: {type: linear, cycles: 2}\n",
     "job.yaml:4:34: schedule.cycles: has no effect: the schedule is linear, not cosine_with_restarts (remove it)"},
    {"optimizer: {momentum: 0.9}\n",
     "job.yaml:4:23: optimizer.momentum: has no effect: adamw uses optimizer.betas (remove it)"},
    {"optimizer: {type: sgd, betas: [0.9, 0.99]}\n",
     "job.yaml:4:31: optimizer.betas: has no effect: sgd uses optimizer.momentum (remove it)"},
    {"schedule: {warmup_steps: 10, warmup_ratio: 0.1}\n",
     "job.yaml:4:44: schedule.warmup_ratio: schedule.warmup_steps is set too (keep one of them)"},
    {"schedule: {decay_ratio: 0.2}\n",
     "job.yaml:4:25: schedule.decay_ratio: has no effect: the schedule is cosine, not wsd (remove it)"},
    {"schedule: {type: constant, min_lr_ratio: 0.2}\n",
     "job.yaml:4:42: schedule.min_lr_ratio: has no effect: the schedule is constant (remove it)"},
    {"schedule: {type: wsd, warmup_ratio: 0.6, decay_ratio: 0.5}\n",
     "job.yaml:4:55: schedule.decay_ratio: warmup_ratio and decay_ratio together are more than 1"},
    // a refused value does not affect other keys
    {"adapter: {type: loraa, rank: 8}\n",
     "job.yaml:4:17: adapter.type: \"loraa\" is not one of none, lora or qlora (did you mean \"lora\"?)"},
    // several at once, from top to bottom
    {"train:\n  epochs: 0\n  presicion: bf16\nschedule: {type: cosin}\n",
     "job.yaml:5:11: train.epochs: 0 is out of range, expected above 0 (leave it out)\n"
     "job.yaml:6:3: train.presicion: unknown key (did you mean \"precision\"?)\n"
     "job.yaml:7:18: schedule.type: \"cosin\" is not one of constant, linear, cosine, wsd, cosine_with_restarts, polynomial or inverse_sqrt (did you mean "
     "\"cosine\"?)"},
};

}  // namespace

TEST_CASE("every broken job is refused with its exact message") {
  TemporaryFolder folder;
  for (const Case& one : kCases) {
    std::string text = one.text;
    text = text.starts_with("!") ? text.substr(1) : kBase + text;
    folder.write("job.yaml", text);
    INFO(text);
    CHECK(error_of([&] { load_job("job.yaml", {.cwd = folder.path()}); }) == one.fault);
  }
  CHECK(std::size(kCases) >= 60);
}

TEST_CASE("a file full of faults is told in short") {
  TemporaryFolder folder;
  std::string text = "model: m\ndata:\n  train:\n";
  for (int i = 0; i < 5000; ++i) text += "    - {path: a, fromat: x}\n";
  folder.write("job.yaml", text);
  std::string message = error_of([&] { load_job("job.yaml", {.cwd = folder.path()}); });
  CHECK(std::count(message.begin(), message.end(), '\n') == 200);
  CHECK_THAT(message, Catch::EndsWith("\njob.yaml: and 4800 more faults"));
}

TEST_CASE("options are refused with the option as their place") {
  TemporaryFolder folder;
  folder.write("job.yaml", kBase);
  auto with = [&](std::vector<std::string> sets) {
    return error_of([&] { load_job("job.yaml", {.sets = std::move(sets), .cwd = folder.path()}); });
  };
  CHECK(with({"train.epochs"}) == "--set train.epochs: expected key=value (as in --set train.epochs=2)");
  CHECK(with({"train.epoch=2"}) ==
        "--set train.epoch=2: train.epoch: unknown key (did you mean \"epochs\"?)");
  CHECK(with({"train.epochs=x"}) == "--set train.epochs=x: train.epochs: \"x\" is not a number");
  CHECK(with({"lr=1"}) == "--set lr=1: lr: unknown key (lr is optimizer.learning_rate here)");
  CHECK_THAT(with({"name=[1"}), Catch::StartsWith("--set name=[1: name: not valid YAML: "));
  CHECK(with({"name=2026", "adapter={type: lora, rank: 4}"}) == "no error");
  CHECK(with({"seed=a", "train.epochs=b"}) ==
        "--set seed=a: seed: \"a\" is not a whole number\n--set train.epochs=b: train.epochs: \"b\" is not a "
        "number");
}

TEST_CASE("a job file that cannot be read says so") {
  TemporaryFolder folder;
  try {
    load_job("none.yaml", {.cwd = folder.path()});
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(exit_code(error.kind()) == 3);
    CHECK_THAT(error.what(), Catch::Contains("none.yaml"));
  }
}

TEST_CASE("faults are values too, for --json") {
  TemporaryFolder folder;
  folder.write("job.yaml", std::string(kBase) + "sede: 1\n");
  try {
    load_job("job.yaml", {.cwd = folder.path()});
    FAIL("no error");
  } catch (const JobErrors& errors) {
    REQUIRE(errors.faults().size() == 1);
    const Diagnostic& fault = errors.faults()[0];
    CHECK(fault.at.text() == "job.yaml:4:1");
    CHECK(fault.key == "sede");
    CHECK(fault.message == "unknown key");
    CHECK(fault.hint == "did you mean \"seed\"?");
    CHECK(exit_code(errors.kind()) == 3);
  }
}
