// Keys and values of other tools: each gets its counterpart or the reason why there is none, also
// when nested. Guesses are made only for likely misspellings.
#include "core/job/foreign.h"

#include <set>

#include "core/job/diagnostics.h"
#include "core/job/field.h"
#include "core/job/load.h"
#include "core/lib/base/text.h"
#include "tests/test.h"

using namespace forge;

namespace {

// Returns "key: hint" of every fault whose key the file states, in the order of the file.
std::vector<std::string> hints(const std::string& text) {
  TemporaryFolder folder;
  folder.write("job.yaml", text);
  std::vector<std::string> found;
  try {
    load_job("job.yaml", {.cwd = folder.path()});
  } catch (const JobErrors& errors) {
    for (const Diagnostic& fault : errors.faults())
      if (fault.message != "missing") found.push_back(fault.key + ": " + fault.hint);
  }
  return found;
}

std::string hint(const std::string& text) {
  std::vector<std::string> all = hints(text);
  return all.empty() ? "no fault" : all.back();
}

struct Case {
  const char *text, *says;  // a part of the last fault's "key: hint"
};

// One line each: a line of a config of this tool, and forge's answer.
const Case kAxolotl[] = {
    {"base_model: NousResearch/Llama-3.2-1B",
     "is model.path here; write a name of the hub as model: {repo: NousResearch/Llama-3.2-1B}, which forge fetch downloads"},
    {"base_model: models/llama.gguf", "base_model is model.path here"},
    {"load_in_4bit: true", "is model.quantization here; write nf4"},
    {"load_in_4bit: false", "is model.quantization here; leave it out"},
    {"adapter: lora\nlora_target_linear: true", "is adapter.target_modules here; write all-linear"},
    {"sequence_len: 4096", "is data.max_length here"},
    {"sample_packing: true", "is data.packing here"},
    {"val_set_size: 0.05", "is data.eval_fraction here"},
    {"val_set_size: 500", "is data.eval_fraction here; a share: divide by the number of rows"},
    {"train_on_inputs: true", "is objective.train_on here; write all"},
    {"rl: dpo", "is objective.type here"},
    {"bf16: auto", "is train.precision here; leave it out"},
    {"float16: true", "is train.precision here; write fp16"},
    {"tf32: true", "has no counterpart: the hardware profile decides about TF32"},
    {"gradient_checkpointing: true", "is train.activation_checkpointing here; write full"},
    {"lr_scheduler: constant_with_warmup", "is schedule.type here; write constant, with warmup_steps"},
    {"wandb_project:", "has no counterpart: runs are written to the run folder"},
    {"wandb_log_model:", "has no counterpart: runs are written to the run folder"},
    {"special_tokens: {pad_token: <pad>}", "has no counterpart: the tokenizer is the model's own"},
    {"plugins: [axolotl.integrations.liger.LigerPlugin]", "has no counterpart: forge runs no code"},
    {"liger_rms_norm: true", "has no counterpart: provider chooses the kernels"},
    {"fsdp_config: {fsdp_offload_params: true}", "has no counterpart: forge trains on one device"},
    {"saves_per_epoch: 4", "is checkpoint.every_steps here; in steps"},
    {"loss_watchdog_threshold: 5.0", "has no counterpart: forge stops at a loss that is not finite"},
    {"model_type: AutoModelForCausalLM", "has no counterpart: the model's config.json says it"},
    {"strict: false", "has no counterpart"},
    {"datasets: [{path: tatsu-lab/alpaca}]",
     "datasets[0].path: it is data.train[].path; write a name of the hub as {repo: tatsu-lab/alpaca}, "
     "which forge fetch downloads"},
    {"datasets: [{type: completion}]", "datasets[0].type: type is data.train[].format here; write text"},
    {"datasets: [{type: chat_template}]", "is data.train[].format here; write messages"},
    {"datasets: [{split: train}]", "datasets[0].split: split has no counterpart: forge reads files"},
    {"datasets: [{field_messages: turns}]", "is data.train[].columns here; write columns: {messages: NAME}"},
    {"test_datasets: [{type: alpaca}]", "test_datasets[0].type: type is data.eval[].format here"},
    {"datasets: [{type: chat_template.argilla}]", "is data.train[].format here; leave it out; auto looks"},
    {"datasets: [{type: llama3.ultra}]", "is data.train[].format here; leave it out; auto looks"},
    {"datasets: [{type: jeopardy}]", "is data.train[].format here; write prompt and completion"},
    {"datasets: [{type: stepwise_supervised}]", "a model that scores each step is not in this version"},
    {"datasets: [{step_separator: x}]", "has no counterpart yet: a model that scores each step"},
    {"datasets: [{logprobs_field: x}]", "has no counterpart yet: distillation"},
    {"datasets: [{roles: {user: [human], assistant: [gpt]}}]", "the other way round: {THEIR_NAME: user}"},
    {"datasets: [{data_files: [a.jsonl]}]", "is data.train[].path here; it takes text, not a list"},
    {"datasets: [{data_files: [a.jsonl, b.jsonl]}]", "each file is an item of data.train"},
    {"reward_model: true", "is objective.type here; write reward"},
    {"process_reward_model: true", "has no counterpart yet: a model that scores each step"},
    {"num_labels: 1", "objective.type reward trains a model with one score"},
    {"rl: gdpo", "is objective.type here; write grpo, with reward_mix.normalize_each: true"},
    {"rl: ebft", "this way of training is not in this version"},
    {"trl: {beta: 0.001}", "is objective.kl.weight here"},
    {"trl: {max_completion_length: 128}", "is rollout.max_new_tokens here"},
    {"trl: {loss_type: grpo}", "in GRPO it is objective.mean: sequence"},
    {"trl: {multi_objective_aggregation: normalize_then_sum}", "is reward_mix.normalize_each here; write true"},
    {"warmup_steps: 0.1", "it is schedule.warmup_steps; for a share of all steps use schedule.warmup_ratio"},
    {"total_num_tokens: 3", "has no counterpart: forge decides it"},
    {"bnb_4bit_quant_storage: bfloat16", "has no counterpart: forge decides it"},
    {"eval_sample_packing: false", "has no counterpart: data.packing decides for training and evaluation"},
};

const Case kLlamaFactory[] = {
    {"model_name_or_path: a/b", "is model.path here"},
    {"stage: pt", "is objective.type here; write pretrain"},
    {"stage: dpo", "is objective.type here"},
    {"stage: rm", "is objective.type here; write reward"},
    {"kto_chosen_weight: 0.8", "is objective.desirable_weight here"},
    {"center_rewards_coefficient: 0.01", "is objective.center here"},
    {"stage: kto", "is objective.type here"},
    {"finetuning_type: full", "is adapter.type here; write none"},
    {"finetuning_type: oft", "is adapter.type here; forge has lora and qlora in this version"},
    {"lora_target: all", "is adapter.target_modules here; write all-linear"},
    {"lora_target: q_proj,v_proj", "is adapter.target_modules here"},
    {"quantization_bit: 4", "is model.quantization here; write nf4"},
    {"load_in_fp8: true", "is model.quantization here; write fp8"},
    {"load_in_fp8: block", "is model.quantization here; write fp8"},
    {"load_in_fp8: false", "is model.quantization here; leave it out"},
    {"fp8: true", "train.precision is fp32, bf16 or fp16"},
    {"quantization_bit: 3", "is model.quantization here; forge quantizes to nf4, fp4, int8 or fp8 itself"},
    {"dataset: identity", "is data.train here; here it is a file, folder or pattern"},
    {"template: llama3", "is data.template here; leave it out: auto takes the model's own"},
    {"cutoff_len: 2048", "is data.max_length here"},
    {"overwrite_cache: true", "has no counterpart: forge keeps its own token cache"},
    {"dataloader_num_workers: 4", "has no counterpart: forge reads data ahead by itself"},
    {"plot_loss: true", "has no counterpart: every step's numbers"},
    {"ddp_timeout: 180000000", "has no counterpart: forge trains on one device"},
    {"report_to: none", "is log.tensorboard here"},
    {"pure_bf16: true", "is train.master_weights here; write false, with train.precision: bf16"},
    {"pissa_init: true", "is adapter.init here; write pissa"},
    {"use_galore: true", "has no counterpart yet: forge has adamw, adamw_8bit, lion, sgd, adafactor, muon and schedule_free"},
    {"freeze_vision_tower: true", "has no counterpart: forge trains language models alone"},
    {"pref_beta: 0.1", "is objective.beta here"},
    {"pref_ftx: 0.1", "is objective.nll_weight here"},
    {"simpo_gamma: 0.5", "is objective.gamma here"},
    {"pref_loss: orpo", "it is a type of its own"},
    {"image_max_pixels: 262144", "has no counterpart yet: images, audio and video"},
    {"disable_gradient_checkpointing: true", "is train.activation_checkpointing here; write none"},
    {"peft_config: {name: lora, r: 8}", "peft_config.r: r is adapter.rank here"},
    {"do_train: true", "has no counterpart: forge run trains"},
    {"finetuning_type: freeze", "is adapter.type here; forge trains an adapter or every weight"},
    {"dpo_ftx: 0.1", "is objective.nll_weight here"},
    {"use_dft_loss: true", "has no counterpart yet: trained tokens weigh the same"},
    {"quantization_method: bnb", "is model.quantization here; nf4 or int8, as the number of bits says"},
    {"export_quantization_bit: 4", "has no counterpart: forge merge and forge export write"},
    {"train_dataset: data/demo.yaml", "is data.train here; the data themselves"},
    {"save_dir: out", "is output_dir here"},
    {"stage: cls", "classification and embedding models are not in this version"},
};

const Case kTransformers[] = {
    {"per_device_train_batch_size: 4",
     "is train.micro_batch_size here; train.global_batch_size is the batch of one optimizer step"},
    {"num_train_epochs: 3", "is train.epochs here"},
    {"max_steps: -1", "it is train.max_steps; leave it out"},
    {"learning_rate: 1e-4", "it is optimizer.learning_rate"},
    {"warmup_ratio: 0.1", "it is schedule.warmup_ratio"},
    {"optim: adamw_torch_fused", "is optimizer.type here; write adamw"},
    {"optim: adamw_bnb_8bit", "is optimizer.type here; write adamw_8bit"},
    {"optim: lion_8bit", "is optimizer.type here; write lion"},
    {"optim: adafactor", "optim is optimizer.type here"},
    {"optim: schedule_free_adamw", "is optimizer.type here; write schedule_free, with schedule.type: constant"},
    {"optim: galore_adamw", "is optimizer.type here; forge has adamw, adamw_8bit, lion, sgd, adafactor, muon and schedule_free in this version"},
    {"lr_scheduler_type: constant_with_warmup", "write constant, with warmup_steps"},
    {"lr_scheduler_type: warmup_stable_decay", "write wsd, with decay"},
    {"lr_scheduler_type: cosine_with_min_lr", "write cosine, with min_lr_ratio"},
    {"lr_scheduler_type: reduce_lr_on_plateau", "forge has constant, linear, cosine"},
    {"adam_beta2: 0.95", "is optimizer.betas here; write both: [0.9, 0.999]"},
    {"save_steps: 0.1", "is checkpoint.every_steps here; a number of steps, not a share of them"},
    {"save_strategy: epoch", "is checkpoint.every_steps here; in steps"},
    {"eval_strategy: steps", "is eval.every_steps here; in steps"},
    {"logging_steps: 10", "is log.every_steps here"},
    {"log_level: info", "has no counterpart: every step's numbers"},
    {"push_to_hub: true", "has no counterpart: forge uploads nothing"},
    {"hub_model_id: me/model", "has no counterpart: forge uploads nothing"},
    {"gradient_checkpointing_kwargs: {use_reentrant: false}",
     "is train.activation_checkpointing here; one word says what is computed again"},
    {"torch_dtype: bfloat16", "is train.precision here; write bf16"},
    {"attn_implementation: flash_attention_2", "has no counterpart: provider chooses the kernels"},
    {"training_args: {learning_rate: 1e-4}", "training_args.learning_rate: it is optimizer.learning_rate"},
    {"training_args: {epochs: 3}", "training_args.epochs: it is train.epochs"},
    {"training_args: {lora: {r: 8}}", "training_args.lora.r: r is"},
    {"deepspeed: ds_z3.json", "has no counterpart: forge trains on one device"},
    {"use_peft: true", "is adapter.type here; write lora"},
    {"load_best_model_at_end: true", "is checkpoint.keep_best here; write 1"},
    {"max_seq_length: 2048", "is data.max_length here"},
    {"packing_strategy: bfd", "is data.packing here; nothing is padded"},
    {"completion_only_loss: true", "is objective.train_on here; write completion"},
    {"use_vllm: true", "is rollout.provider here; write http, with rollout.server.url"},
    {"use_vllm: false", "is rollout.provider here; leave it out"},
    {"vllm_mode: colocate", "is rollout.provider here; write here"},
    {"vllm_server_host: 10.0.0.1", "is rollout.server.url here; http://HOST:PORT/v1"},
    {"vllm_server_base_url: http://x:8000", "is rollout.server.url here; up to and with /v1"},
    {"vllm_gpu_memory_utilization: 0.3", "has no counterpart: a server of completions is started apart"},
    {"reward_model_path: rm", "is rewards here; {type: model, path: FOLDER}"},
    {"sft_model_path: models/m", "is model.path here"},
    {"max_tool_calling_iterations: 3", "is rollout.tools.max_turns here; it counts the model's turns"},
    {"log_completions: true", "has no counterpart: the run folder keeps every completion"},
    {"lmbda: 0.5", "has no counterpart yet: distillation"},
    {"trainer_type: GRPO", "is objective.type here; write grpo"},
    {"use_muon: true", "is optimizer.type here; write muon"},
    {"train_from_scratch: true", "is model.init here; write random"},
    {"max_prompt_len: 512", "is data.max_prompt_length here"},
    {"beta: 0.1", "is objective.beta here"},
    {"precompute_ref_log_probs: true", "is objective.reference_cache here"},
    {"rpo_alpha: 1", "is objective.nll_weight here"},
    {"desirable_weight: 1", "is objective.desirable_weight here"},
    {"beta: 0", "leave it out; in GRPO it is objective.kl.weight"},
    {"label_smoothing: 0.1", "is objective.label_smoothing here; in DPO it is objective.label_flip"},
    {"loss_type: apo_zero", "is objective.loss here"},
    {"loss_type: dapo", "in GRPO it is objective.mean: token"},
    {"loss_type: cispo", "it is a type of its own: objective.type"},
    {"loss_type: [sigmoid, bco_pair]", "is objective.loss here; it takes sigmoid, robust"},
    {"epsilon: 0.2", "is objective.clip_low here; write objective.clip_high too"},
    {"max_completion_length: 256", "is data.max_completion_length here; in GRPO it is rollout.max_new_tokens"},
    {"generation_batch_size: 64", "is rollout.prompts_per_step here; completions, divided by"},
    {"steps_per_generation: 4", "is objective.updates_per_rollout here"},
    {"reward_model: a/b", "a trained model as reward is {type: model, path: FOLDER}"},
    {"dataset_mixture: {datasets: [{columns: [messages]}]}", "columns has no counterpart: forge reads the columns"},
    {"optim: adamw_torch_8bit", "is optimizer.type here; write adamw_8bit"},
    {"optim: adamw_torch_4bit", "is optimizer.type here; forge has adamw, adamw_8bit, lion, sgd, adafactor, muon and schedule_free"},
    {"dataset_mixture: {datasets: [{id: a/b, weight: 0.5}]}",
     "dataset_mixture.datasets[0].weight: it is data.train[].weight"},
};

const Case kTorchtune[] = {
    {"model: {_component_: torchtune.models.llama3_2.lora_llama3_2_1b}",
     "model._component_: _component_ is model.path here"},
    {"model: {apply_lora_to_mlp: True}", "add gate_proj, up_proj and down_proj to the list"},
    {"model: {apply_lora_to_output: False}", "leave lm_head out of the list"},
    {"model: {lora_rank: 8}", "is adapter.rank here"},
    {"optimizer: {_component_: torch.optim.AdamW}",
     "optimizer._component_: _component_ is optimizer.type here; write adamw"},
    {"optimizer: {_component_: bitsandbytes.optim.PagedAdamW8bit}",
     "is optimizer.type here; write adamw_8bit"},
    {"optimizer: {fused: True}", "optimizer.fused: fused has no counterpart"},
    {"optimizer: {lr: 2e-5}", "is optimizer.learning_rate here"},
    {"lr_scheduler: {_component_: torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup}",
     "is schedule.type here; write cosine"},
    {"lr_scheduler: {num_warmup_steps: 100}",
     "lr_scheduler.num_warmup_steps: num_warmup_steps is schedule.warmup_steps here"},
    {"checkpointer: {checkpoint_dir: /tmp/m}",
     "checkpointer.checkpoint_dir: checkpoint_dir is model.path here"},
    {"checkpointer: {recipe_checkpoint: null}", "has no counterpart: forge run continues an unfinished run"},
    {"tokenizer: {max_seq_len: 2048}", "tokenizer.max_seq_len: max_seq_len is data.max_length here"},
    {"tokenizer: {path: /tmp/tokenizer.model}", "tokenizer: tokenizer has no counterpart"},
    {"dataset: {packed: True}", "dataset.packed: packed is data.packing here"},
    {"dataset: {source: a/b}", "dataset.source: source is data.train[].path here"},
    {"dataset_val: {split: 'train[95%:]'}", "has no counterpart: forge reads files"},
    {"max_steps_per_epoch: null", "is train.max_steps here; leave it out"},
    {"compile: False", "has no counterpart: nothing is compiled"},
    {"profiler: {enabled: False}", "has no counterpart: forge bench measures"},
    {"metric_logger: {log_dir: x}", "has no counterpart: runs are written to the run folder"},
    {"loss: {_component_: torchtune.modules.loss.LinearCrossEntropyLoss}", "is objective.type here; leave it out"},
    {"loss: {_component_: torchtune.rlhf.loss.DPOLoss}", "is objective.type here; write dpo"},
    {"loss: {_component_: torchtune.dev.rl.loss.GRPOLoss}", "is objective.type here; write grpo"},
    {"loss: {_component_: torchtune.rlhf.loss.PPOLoss}", "is objective.type here; write ppo"},
    {"loss: {label_smoothing: 0.1}", "is objective.label_flip here"},
    {"loss: {epsilon: 0.2}", "is objective.clip_low here; write objective.clip_high too"},
    {"loss: {kl_coeff: 0.01}", "is objective.kl.weight here"},
    {"loss: {value_coeff: 0.1}", "the value network shares no trained weight"},
    {"grpo_samples: 4", "is rollout.samples_per_prompt here"},
    {"max_staleness: 1", "is rollout.server.max_staleness here"},
    {"tis_imp_ratio_cap: 2", "is rollout.correction here"},
    {"prompt_lookup_num_tokens: 5", "is rollout.lookup_tokens here"},
    {"max_turns: 4", "is rollout.tools.max_turns here"},
    {"vllm_server_base_url: http://h:8000", "is rollout.server.url here"},
    {"max_generated_tokens: 58", "is rollout.max_new_tokens here"},
    {"ppo_batch_size: 16", "is objective.updates_per_rollout here"},
    {"limit: null", "has no counterpart: forge evaluates the loss"},
    {"log_args: {project: x}", "project: project has no counterpart: runs are written to the run folder"},
    {"enable_activation_offloading: True", "enable_activation_offloading is train.activation_offloading here; write host"},
    {"activation_offloading: legacy", "is train.activation_offloading here; write host"},
    {"activation_offloading: disk", "go to the host's memory (host), not to a disk"},
    {"gradient_checkpointing: offload", "write full, with train.activation_offloading: host"},
    {"dtype: bf16", "is train.precision here"},
    {"device: xpu", "it is hardware.device; forge trains on a CPU or a CUDA card"},
    {"quantizer: {groupsize: 32}", "quantization-aware training is not in this version"},
    {"batch_size: 2", "is train.micro_batch_size here"},
};

const Case kOthers[] = {
    // ms-swift
    {"tuner_type: full", "is adapter.type here; write none"},
    {"torch_dtype: float16", "is train.precision here; write fp16"},
    {"split_dataset_ratio: 0.01", "is data.eval_fraction here"},
    {"load_from_cache_file: true", "forge keeps its own token cache"},
    {"freeze_vit: true", "forge trains language models alone"},
    {"tensor_model_parallel_size: 2", "forge trains on one device"},
    {"train_iters: 100", "is train.max_steps here"},
    {"rlhf_type: grpo", "is objective.type here"},
    {"rlhf_type: ppo", "is objective.type here"},
    {"lam: 0.95", "lam is objective.lambda_policy here"},
    {"vf_coef: 0.1", "has its own rate"},
    {"cliprange_value: 0.2", "is objective.value.clip here"},
    {"truncation_strategy: delete", "is data.overlong here; write drop"},
    {"advantage_estimator: rloo", "advantage_estimator is objective.type here"},
    {"overlong_filter: true", "is objective.mask_truncated here"},
    {"kl_in_reward: true", "is objective.kl.in here; write reward"},
    {"dynamic_sample: true", "is rollout.dynamic_sampling.reward here; the name of the reward"},
    {"loss_scale: last_round", "is objective.train_on here; write last_assistant"},
    {"soft_cache_length: 4", "is rewards here; {type: overlong"},
    // verl
    {"actor: {kl_loss_type: low_var_kl}", "is objective.kl.estimator here; write k3"},
    {"actor: {loss_agg_mode: token-mean}", "is objective.mean here; write token"},
    {"rollout: {n: 8}", "is rollout.samples_per_prompt here"},
    {"algorithm: {kl_ctrl: {kl_coef: 0.1}}", "is objective.kl.weight here"},
    {"entropy_coeff: 0.01", "is objective.entropy_weight here"},
    // mlx-lm
    {"lora_parameters: {scale: 20}", "is adapter.alpha here; the scale times adapter.rank"},
    {"lora_layers: 16", "is adapter.layers_to_transform here; a list of the layers' numbers"},
    // litgpt
    {"precision: bf16-true", "is train.precision here; write bf16"},
    {"quantize: bnb.nf4", "is model.quantization here; write nf4"},
    {"train: {lr_warmup_steps: 10}", "is schedule.warmup_steps here"},
    {"train: {min_lr: 6e-5}", "is schedule.min_lr_ratio here; as a share"},
    {"train: {tie_embeddings: null}", "the model's config.json says it"},
    {"eval: {interval: 100}", "eval.interval: interval is eval.every_steps here"},
    {"eval: {max_new_tokens: 100}", "has no counterpart"},
    {"eval: {initial_validation: true}", "is eval.at_start here"},
    {"eval: {max_iters: 100}", "is data.eval here; write [{path: FILE, limit: N}]"},
    {"optimizer: {class_path: torch.optim.AdamW, init_args: {lr: 1e-4}}",
     "optimizer.init_args.lr: lr is optimizer.learning_rate here"},
    {"data: {class_path: litgpt.data.JSON, init_args: {val_split_fraction: 0.1}}",
     "is data.eval_fraction here"},
    {"lora_projection: true", "add o_proj to the list"},
    {"devices: 2", "is hardware.device here; forge trains on one device"},
    {"logger_name: csv", "is log.tensorboard here; leave it out: forge writes metrics.jsonl"},
    // Unsloth
    {"lora: {use_loftq: true}", "is adapter.init here; write loftq"},
    {"lora: {lora_dropout: 0.1}", "is adapter.dropout here"},
    {"training: {train_on_completions: true}", "is objective.train_on here; write assistant"},
    {"training: {gradient_checkpointing: unsloth}", "is train.activation_checkpointing here; write full"},
    {"logging: {enable_wandb: false}", "logging.enable_wandb: enable_wandb has no counterpart"},
    // ModelForge
    {"compute_specs: low_end", "is hardware.profile here"},
    {"use_4bit: true", "write nf4"},
    {"bnb_4bit_compute_dtype: float16", "is train.precision here; write fp16"},
    // OpenRLHF
    {"ckpt: {save_steps: 20}", "ckpt.save_steps: save_steps is"},
    {"ds: {packing_samples: true}", "ds.packing_samples: packing_samples is"},
    {"ds: {zero_stage: 3}", "ds.zero_stage: zero_stage has"},
    {"adam: {lr: 1e-5}", "adam.lr: lr is optimizer.learning_rate here"},
    // PEFT
    {"peft_config: {r: 8, bias: none}", "peft_config.bias: bias is adapter.bias here"},
    {"lora_config: {target_modules: all-linear, init_lora_weights: true}",
     "is adapter.init here; write default"},
    {"lora_config: {task_type: CAUSAL_LM}", "has no counterpart: leave it out"},
    // In PEFT's other methods a name may have another meaning than in other tools.
    {"peft_type: BOFT\nblock_size: 64", "has no counterpart yet: it belongs to another of PEFT's methods; forge has LoRA"},
    {"peft_type: LOHA\nmodule_dropout: 0.1", "it belongs to another of PEFT's methods"},
    {"peft_config: {peft_type: VERA, random_seed: 3}", "peft_config.random_seed: random_seed has no counterpart yet: it belongs"},
    {"peft_config: {peft_type: VERA, target_modules: [q_proj]}", "it is adapter.target_modules"},
    {"peft_type: LORA\nr: 8", "r is adapter.rank here"},
    {"peft_type: NEWEST", "is adapter.type here; forge has lora and qlora in this version"},
    {"lora: {r: [16, 32]}", "is adapter.rank here; it takes a whole number, not a list"},
    // A key of another tool's name, or a section of a program's own.
    {"expert_review_required: true", "known here: version"},
    {"dpo_zh_demo: {path: a.json}", "known here: version"},
    {"system: {cpu_count: 4}", "what a job runs on is not part of it"},
    // References of Hydra and OmegaConf are values, but not in forge's syntax.
    {"checkpointer: {checkpoint_dir: '${base}'}", ": write the value itself, or ${env:NAME}"},
    {"training_type: sft", "is objective.type here"},
    {"training_type: lora", "is objective.type here; it is adapter.type: lora, qlora or none"},
    {"training_type: vlm_grpo", "is objective.type here; images, audio and video are not in this version"},
    {"training_type: dpo", "is objective.type here"},
    {"async_eval: {server_port: 8100}", "it belongs to a server"},
    {"backend: {gpu_memory_utilization: 0.9}", "it is vLLM's share of the card"},
    {"experiment: {tags: [a, b]}", "experiment: "},
    {"use_onebitllms: true", "forge quantizes to nf4, fp4, int8 or fp8 itself"},
    {"curriculum_sampling: true", "is data.shuffle here; false keeps the order of the rows"},
    {"data: {init_args: {ignore_index: -100}}", "objective.train_on says which tokens are trained"},
};

// Values of other tools in forge's own keys, including those of OpenRLHF, whose flags have the same
// words.
const Case kVerl[] = {
    {"data: {train_files: a.jsonl, val_files: b.jsonl}", "data.val_files: val_files is data.eval here"},
    {"data: {prompt_key: question}", "is data.train[].columns here; write columns: {prompt: NAME}"},
    {"data: {tokenizer: null}", "has no counterpart: the tokenizer is the model's own"},
    {"actor_rollout_ref: {hybrid_engine: true}", "hybrid_engine has no counterpart: forge decides it"},
    {"actor_rollout_ref: {model: {path: /m}}", "actor_rollout_ref.model.path: it is model.path"},
    {"actor_rollout_ref: {model: {lora_rank: 64}}", "lora_rank is adapter.rank here"},
    {"actor_rollout_ref: {actor: {strategy: fsdp}}", "strategy has no counterpart: forge trains on one device"},
    {"actor_rollout_ref: {actor: {ppo_micro_batch_size_per_gpu: 4}}", "is train.micro_batch_size here"},
    {"actor_rollout_ref: {actor: {kl_loss_type: low_var_kl}}", "is objective.kl.estimator here; write k3"},
    {"actor_rollout_ref: {actor: {optim: {lr: 1e-6}}}", "optim.lr: lr is optimizer.learning_rate here"},
    {"actor_rollout_ref: {actor: {optim: {lr_warmup_steps_ratio: 0.1}}}", "is schedule.warmup_ratio here"},
    {"actor_rollout_ref: {actor: {policy_loss: {loss_mode: vanilla}}}", "is objective.type here; write grpo"},
    {"actor_rollout_ref: {rollout: {n: 5}}", "rollout.n: n is rollout.samples_per_prompt here"},
    {"actor_rollout_ref: {rollout: {name: vllm}}", "name is rollout.provider here; write http"},
    {"actor_rollout_ref: {rollout: {response_length: 64}}", "is rollout.max_new_tokens here"},
    {"actor_rollout_ref: {rollout: {top_p: 0.9}}", "has no counterpart yet: rollouts are drawn from every token"},
    {"actor_rollout_ref: {rollout: {multi_turn: {max_assistant_turns: 3}}}", "is rollout.tools.max_turns here"},
    {"actor_rollout_ref: {rollout: {val_kwargs: {n: 1}}}", "evaluation prompts are answered greedily"},
    {"actor_rollout_ref: {ref: {fsdp_config: {}}}", "has no counterpart: forge trains on one device"},
    {"critic: {cliprange_value: 0.5}", "is objective.value.clip here"},
    {"trainer: {total_training_steps: 10}", "is train.max_steps here"},
    {"trainer: {val_before_train: true}", "is eval.at_start here"},
    {"trainer: {default_local_dir: out}", "is output_dir here"},
    {"prompt_data: a.jsonl", "is data.train here"},
    {"acc_steps: 4", "is train.global_batch_size here"},
    {"adam_offload: true", "is optimizer.offload here; write host; auto moves the state to the host's memory"},
    {"remote_rm_url: http://x/score", "is rewards here; a server that scores is {type: http, url: URL}"},
    {"remote_rm_url: reward.py", "is rewards here; a function of your own is {type: command}"},
    {"reward_pretrain: rm", "is rewards here; {type: model, path: FOLDER}"},
    {"agent_func_path: agent.py", "is rollout.tools.command here"},
};

// A name in one of forge's own sections, where it often has another meaning than elsewhere.
const Case kOwnSections[] = {
    {"rollout: {max_tokens: 64}", "is rollout.max_new_tokens here"},
    {"rollout: {base_url: http://x/v1}", "is rollout.server.url here"},
    {"rollout: {temprature: 1}", "did you mean \"temperature\"?"},
    {"rollout: {tools: {max_steps: 3}}", "is rollout.tools.max_turns here"},
    {"rollout: {server: {host: x}}", "is rollout.server.url here; http://HOST:PORT/v1"},
    {"rollout: {server: {port: 8000}}", "is rollout.server.url here; http://HOST:PORT/v1"},
    {"rollout: {server: {model: m}}", "has no counterpart: the model is that of model.path"},
    {"objective: grpo\nrollout: {provider: vllm}", "rollout.provider: write http, with rollout.server.url"},
    {"rewards: [{type: model, model: rm}]", "is rewards[].path here"},
    {"checkpoint: {format: safetensors}", "has no counterpart: what is written is safetensors"},
    {"model: {format: gguf}", "known here: path"},
    {"data: {type: chat}", "known here: train"},
    {"data: {format: messages}", "it is data.train.format or data.eval.format"},
    {"data: {max_tokens: 512}", "is data.max_length here; of one example"},
    {"objective: {epsilon: 0.2}", "is objective.clip_low here"},
    {"objective: {temperature: 0.9}", "is rollout.temperature here"},
    {"hardware: {gpus: 2}", "is hardware.device here; forge trains on one device"},
    {"data: {max_steps: 3}", "it is train.max_steps"},
    {"model: {learning_rate: 1}", "it is optimizer.learning_rate"},
};

const Case kValues[] = {
    {"train: {precision: float16}", "train.precision: write fp16"},
    {"train: {precision: bfloat16}", "train.precision: write bf16"},
    {"model: {path: m, quantization: int4}", "model.quantization: write nf4"},
    {"model: {path: m, quantization: gptq}",
     "model.quantization: forge quantizes to nf4, fp4, int8 or fp8 itself"},
    {"adapter: {type: dora}", "adapter.type: write lora, with adapter.use_dora: true"},
    {"adapter: {type: full}", "adapter.type: write none"},
    {"adapter: false", "adapter.type: write none"},
    {"adapter: {type: lora, target_modules: all}", "adapter.target_modules: write all-linear"},
    {"adapter: {type: lora, init: true}", "adapter.init: write default"},
    {"train: {activation_checkpointing: true}", "train.activation_checkpointing: write full"},
    {"train: {activation_checkpointing: false}", "train.activation_checkpointing: write none"},
    {"train: {max_steps: -1}", "train.max_steps: leave it out"},
    {"checkpoint: {every_steps: epoch}",
     "checkpoint.every_steps: a number of steps: forge counts no epochs here"},
    {"log: {tensorboard: wandb}", "log.tensorboard: leave it out: forge writes metrics.jsonl"},
    {"optimizer: adamw_torch", "optimizer.type: write adamw"},
    {"optimizer: adamw_bnb_8bit", "optimizer.type: write adamw_8bit"},
    {"optimizer: paged_adamw_8bit", "optimizer.type: write adamw_8bit, with optimizer.offload: host"},
    {"optim: paged_adamw_32bit", "optim is optimizer.type here; write adamw, with optimizer.offload: host"},
    {"optim: paged_lion_8bit", "write lion, with optimizer.offload: host"},
    {"optimizer: {_component_: bitsandbytes.optim.PagedAdamW8bit}", "write adamw_8bit, with optimizer.offload: host"},
    {"optimizer: {offload: cpu}", "optimizer.offload: write host"},
    {"zero_optimization: {offload_optimizer: {device: cpu}}", "zero_optimization.offload_optimizer.device: device is optimizer.offload here; write host"},
    {"zero_optimization: {offload_optimizer: {device: nvme}}", "to the host's memory (host), not to a disk"},
    {"optimizer: adam", "optimizer.type: adamw with weight_decay 0 is Adam"},
    {"objective: ipo", "objective.type: write dpo, with objective.loss: ipo"},
    {"data: {eval_fraction: 500}", "data.eval_fraction: a share: divide by the number of rows"},
    {"model: {path: m, quantization: q4_k_m}", "model.quantization: forge export --type writes such a GGUF"},
    {"schedule: constant_with_warmup", "schedule.type: write constant, with warmup_steps"},
    {"objective: cpt", "objective.type: write pretrain"},
    {"data: {train: [{path: a, format: completion}]}", "data.train[0].format: write text"},
};

template <size_t N>
void check(const Case (&cases)[N]) {
  for (const Case& sample : cases) {
    INFO(sample.text);
    CHECK_THAT(hint(sample.text), Catch::Contains(sample.says));
  }
}

}  // namespace

TEST_CASE("keys of axolotl") { check(kAxolotl); }
TEST_CASE("keys of LLaMA-Factory") { check(kLlamaFactory); }
TEST_CASE("keys of transformers, TRL and alignment-handbook") { check(kTransformers); }
TEST_CASE("keys of torchtune") { check(kTorchtune); }
TEST_CASE("keys of ms-swift, litgpt, Unsloth, ModelForge, OpenRLHF and PEFT") { check(kOthers); }
TEST_CASE("keys of verl and OpenRLHF") { check(kVerl); }
TEST_CASE("keys of other tools in forge's own sections") { check(kOwnSections); }
TEST_CASE("values of other tools in forge's keys") { check(kValues); }

TEST_CASE("a name of how completions are drawn or scored is never answered by another section's") {
  for (const std::string& dotted : dotted_keys(job_fields())) {
    const std::string name = dotted.substr(dotted.rfind('.') + 1);
    for (const std::string section : {"rollout", "rollout.server", "rollout.tools", "rewards"}) {
      if (find_field(section + "." + name)) continue;
      const std::string text = section == "rewards"         ? "rewards: [{type: exact, " + name + ": 1}]"
                               : section.size() > 7 ? "rollout: {" + section.substr(8) + ": {" + name + ": 1}}"
                                                    : "rollout: {" + name + ": 1}";
      INFO(text);
      const std::string said = hint(text);
      const size_t home = said.find(": it is ");
      CHECK((home == std::string::npos || starts_with(said.substr(home + 8), section.substr(0, 7))));
    }
  }
}

TEST_CASE("nothing is added to a hint that needs nothing") {
  CHECK(hint("pref_loss: ipo") == "pref_loss: pref_loss is objective.loss here");
  CHECK(hint("adapter_type: qlora") == "adapter_type: adapter_type is adapter.type here");
  CHECK(hint("adapter_name_or_path: saves/qwen") == "adapter_name_or_path: adapter_name_or_path is adapter.init_from here");
}

TEST_CASE("keys with a value of another kind say what to write for it") {
  CHECK(hint("use_dynamic_batch: true") ==
        "use_dynamic_batch: use_dynamic_batch is train.micro_batch_tokens here; write auto; micro-batches are filled up to so many tokens");
  CHECK_THAT(hint("use_dynamic_batch: false"), Catch::Contains("train.micro_batch_tokens here; leave it out"));
  CHECK(hint("async_train: true") ==
        "async_train: async_train is rollout.server.max_staleness here; write 1; the number of rollouts that a server draws ahead");
  CHECK_THAT(hint("async_train: false"), Catch::Contains("rollout.server.max_staleness here; leave it out"));
  CHECK(hint("clip_range_left: 0.2") == "clip_range_left: clip_range_left is objective.clip_low here");
  CHECK(hint("clip_range_right: 0.3") == "clip_range_right: clip_range_right is objective.clip_high here");
  CHECK_THAT(hint("colocate_all_models: true"), Catch::Contains("has no counterpart: everything runs on one device"));
  CHECK_THAT(hint("best_of_n: 4"), Catch::Contains("has no counterpart yet: forge generate draws one answer a prompt"));
  CHECK_THAT(hint("assistant_model: m"), Catch::Contains("has no counterpart yet: no draft model draws ahead"));
  CHECK_THAT(hint("checkpoint_compression: zstd"), Catch::Contains("has no counterpart: checkpoints are written as they are"));
}

TEST_CASE("sections of other tools are walked into, lists said once") {
  CHECK(hints("lora: {r: 8, lora_alpha: 16, rnak: 2, use_rslora: true}\n") ==
        std::vector<std::string>{
            "lora: lora is adapter here",
            "lora.r: r is adapter.rank here",
            "lora.lora_alpha: lora_alpha is adapter.alpha here",
            "lora.rnak: did you mean \"adapter.rank\"?",
            "lora.use_rslora: it is adapter.use_rslora",
        });
  CHECK(hints("datasets: [{split: a}, {split: b, limit: 3}]\n").size() == 3);
  // A section with an unknown name: known keys below it are explained, plain words are not.
  CHECK(hints("my_experiment: {max_steps: 3, name: x, type: y}\n") ==
        std::vector<std::string>{
            "my_experiment: forge has no such section; the keys under it that forge knows are listed",
            "my_experiment.max_steps: it is train.max_steps",
        });
  CHECK(hints("student: {model: a, path: b}\n").size() == 1);
  CHECK(hints("policy: {max_steps: 4}\n").at(0) ==
        "policy: forge has no such section; the keys under it that forge knows are listed");
  // A whole job below a key.
  CHECK(hint("trainer: {optimizer: {lr: 1}}").find("trainer.optimizer.lr: lr is") == 0);
  CHECK(hints("checkpointer: {checkpoint_dir: '${base}', output_dir: out}\n") ==
        std::vector<std::string>{
            "checkpointer: checkpointer is model here; model says what it loads, checkpoint what it saves",
            "checkpointer.checkpoint_dir: checkpoint_dir is model.path here",
            ": write the value itself, or ${env:NAME} or ${env:NAME:-default}; $${ is the text ${",
            "checkpointer.output_dir: it is output_dir, at the top of the file",
        });
  // A reason given for a section is not repeated for each key below it.
  CHECK(hints("fsdp_config: {a: 1, b: 2}\n").size() == 1);
}

TEST_CASE("a guess is only made for a likely misspelling in the same section") {
  // Nearest names across sections were wrong more often than not.
  for (const char* text :
       {"checkpoints_x: 1", "train: {learing_rate: 1}", "lossy: 1", "adapter: {path: x, patience: 3}",
        "eval: {max_tokns: 3}", "modal: {gpu: a100}", "keeper: 1", "optimizer: {initial: 1}", "teach: 1",
        "data: {max_margins: 1}", "train: {min_steps: 1}", "cache_file: x",
        "lora: {adalora: {total_step: 3}}", "lora: {total_step: 3}", "providers: {a: 1}", "long: [1, 2]",
        "train: {epoch: {count: 3}}", "data: {evals: {a: 1}}"}) {
    INFO(text);
    CHECK_THAT(hint(text), !Catch::Contains("did you mean"));
  }
  CHECK(hint("schedul: {type: linear}") == "schedul: did you mean \"schedule\"?");
  CHECK(hint("data: {train: a.txt, max_lenght: 4}") == "data.max_lenght: did you mean \"max_length\"?");
  CHECK_THAT(hint("num_train_epoch: 3"),
             Catch::Contains("did you mean \"num_train_epochs\"? num_train_epochs is"));
}
