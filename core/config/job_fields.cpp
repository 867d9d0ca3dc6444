// The tables of job.yaml: every key with its sentence, range, choices and what another value means to a run. Defaults
// stand in job.h.
#include "core/config/field_builder.h"

namespace forge {
namespace {

std::vector<Field> model_fields() {
  return {
      key("path", &ModelConfig::path, "The model: a Hugging Face folder with safetensors, or a .gguf file.")
          .required()
          .path()
          .role(KeyRole::content),
      key("quantization", &ModelConfig::quantization,
          "How the frozen linear weights are held; the head and the embedding stay as they are.")
          .role(KeyRole::identity),
      key("double_quantization", &ModelConfig::double_quantization,
          "Hold the scales of nf4 and fp4 in 8 bits too: 4.127 instead of 4.5 bits a weight.")
          .role(KeyRole::identity),
  };
}

// The three forms of target_modules share two members.
Field target_modules() {
  Entry entry =
      key("target_modules", &AdapterConfig::target_modules,
          "Linear layers that get an adapter: all-linear, a list of name endings, or one regex that must "
          "match the whole module path.")
          .kind(FieldKind::targets)
          .words({"all-linear"});
  entry.field.get = [](const void* object) -> FieldValue {
    const auto& adapter = *static_cast<const AdapterConfig*>(object);
    bool word = adapter.target_modules == std::vector<std::string>{"all-linear"};
    if (adapter.target_is_regex || word) return adapter.target_modules.at(0);
    return adapter.target_modules;
  };
  entry.field.set = [](void* object, FieldValue value) {
    auto& adapter = *static_cast<AdapterConfig*>(object);
    const auto* text = std::get_if<std::string>(&value);
    adapter.target_is_regex = text && *text != "all-linear";
    adapter.target_modules = text ? std::vector{*text} : std::get<std::vector<std::string>>(value);
  };
  return std::move(entry.field);
}

std::vector<Field> adapter_fields() {
  return {
      key("type", &AdapterConfig::type,
          "What is trained: every weight (none) or a low-rank adapter. qlora is short "
          "for lora on a model in nf4 with double quantization.")
          .also({"qlora"})
          .later({"loha", "lokr", "ia3", "oft", "vera", "prefix", "prompt"}),
      key("rank", &AdapterConfig::rank, "Width of the low-rank update.").range(1, 65536),
      key("alpha", &AdapterConfig::alpha, "The update is multiplied by alpha / rank.").above(0),
      key("dropout", &AdapterConfig::dropout, "Share of the adapter's inputs that are dropped in training.")
          .at_least(0)
          .below(1),
      target_modules(),
      key("exclude_modules", &AdapterConfig::exclude_modules,
          "Name endings that target_modules must not take."),
      key("modules_to_save", &AdapterConfig::modules_to_save,
          "Modules that are trained whole and stored with the adapter, such as lm_head."),
      key("use_rslora", &AdapterConfig::use_rslora,
          "Multiply by alpha / sqrt(rank) instead of alpha / rank."),
      key("use_dora", &AdapterConfig::use_dora,
          "Train the magnitude of each output row beside the direction (DoRA)."),
      key("init", &AdapterConfig::init,
          "How the adapter starts: as PEFT's default (A uniform, B zero), gaussian A, or "
          "from the weight's singular vectors (pissa).")
          .later({"loftq", "olora", "eva", "corda", "orthogonal"}),
      key("lora_plus_ratio", &AdapterConfig::lora_plus_ratio, "Learning rate of B over that of A (LoRA+).")
          .above(0),
      key("rank_pattern", &AdapterConfig::rank_pattern,
          "Rank of single modules: name ending or regex to rank.")
          .range(1, 65536),
      key("alpha_pattern", &AdapterConfig::alpha_pattern,
          "Alpha of single modules: name ending or regex to alpha.")
          .above(0),
      key("layers_to_transform", &AdapterConfig::layers_to_transform,
          "Numbers of the layers that get an adapter.")
          .at_least(0)
          .when_unset("all layers"),
      key("init_from", &AdapterConfig::init_from, "A PEFT adapter folder to start from.").path(),
  };
}

std::vector<Field> objective_fields() {
  return {
      key("type", &ObjectiveConfig::type,
          "What is minimised: the loss of answers (sft) or of all text (pretrain).")
          .later({"dpo", "orpo", "simpo", "kto", "ipo", "reward", "grpo", "gspo", "ppo", "rloo"})
          .makes_examples(),
      key("train_on", &ObjectiveConfig::train_on,
          "Which tokens count: every assistant turn, the last one, each one as an example of its own "
          "behind the turns before it, the completion of a pair, or all.")
          .makes_examples(),
      key("label_smoothing", &ObjectiveConfig::label_smoothing,
          "Share of the target spread over the vocabulary.")
          .at_least(0)
          .below(1),
      key("z_loss", &ObjectiveConfig::z_loss, "Coefficient of logsumexp², which keeps logits small.")
          .at_least(0),
  };
}

std::vector<Field> source_fields() {
  return {
      key("path", &DataSource::path,
          "A data file (.jsonl, .json, .csv, .tsv, .txt, .md, .parquet; text also as .gz or .zst), a folder "
          "of them, or "
          "a pattern such as data/*.jsonl.")
          .required()
          .path(),
      key("format", &DataSource::format,
          "What a row looks like; auto looks at the rows and the plan says what it saw. preference, kto, "
          "reward and "
          "prompt rows are shown by forge data; no objective trains on them yet.")
          .makes_examples(),
      key("limit", &DataSource::limit, "Take so many rows only, behind those of skip.")
          .at_least(1)
          .unit("rows")
          .when_unset("all rows")
          .makes_examples(),
      key("skip", &DataSource::skip, "Leave out the first rows.").at_least(0).unit("rows").makes_examples(),
      key("weight", &DataSource::weight,
          "Times that each row is trained in an epoch. 2.5: all rows twice, and half of them once more, "
          "chosen by "
          "the row's hash and the seed.")
          .above(0)
          .range(0, 1000)
          .makes_examples(),
      key("columns", &DataSource::columns,
          "Where forge's fields stand in a row: {instruction: question, output: answer.text}. from, value, "
          "role and "
          "content rename the keys of each turn.")
          .when_unset("the fields have forge's names")
          .makes_examples(),
      key("roles", &DataSource::roles,
          "Roles of the speakers: {Customer: user, Agent: assistant}. Roles are system, user, assistant, "
          "tool and "
          "tool_call.")
          .when_unset("the usual names")
          .makes_examples(),
      key("prompt", &DataSource::prompt,
          "Own template of the prompt, with fields of the row in braces: \"Q: {question}\\nA:\". Doubled "
          "braces are "
          "braces.")
          .when_unset("the row's own prompt")
          .makes_examples(),
      key("completion", &DataSource::completion, "Own template of the completion, with prompt.")
          .when_unset("the row's own completion")
          .makes_examples(),
      key("ignore", &DataSource::ignore,
          "Keys of rows and turns to leave out on purpose, such as a context, a score or images beside the "
          "text.")
          .when_unset("keys that would change what is learned are refused, others are counted")
          .makes_examples(),
      key("sample_by", &DataSource::sample_by,
          "What a row of a text file is: the whole document, a paragraph (blank lines between) or a line.")
          .makes_examples(),
  };
}

std::vector<Field> data_fields() {
  return {
      sections("train", &DataConfig::train,
               "What to train on: a file, folder or pattern, a list of them, or a list of {path, format, …}.",
               source_fields())
          .required()
          .shorthand("path")
          .role(KeyRole::content),
      sections("eval", &DataConfig::eval, "What to evaluate on, in the same forms.", source_fields())
          .shorthand("path")
          .role(KeyRole::free),
      key("eval_fraction", &DataConfig::eval_fraction,
          "Share of the training rows kept for evaluation, chosen by each row's hash.")
          .at_least(0)
          .below(1)
          .role(KeyRole::content)
          .makes_examples(),
      key("template", &DataConfig::template_name,
          "Chat template: the model's own (auto), a .jinja file, or the name of a bundled one.")
          .words({"auto"})
          .role(KeyRole::content),
      key("template_variables", &DataConfig::template_variables,
          "Values for names that the chat template reads, as {enable_thinking: false}; the stored template "
          "keeps them.")
          .role(KeyRole::content),
      key("max_length", &DataConfig::max_length, "Longest example.")
          .range(1, 1 << 24)
          .unit("tokens")
          .role(KeyRole::content)
          .makes_examples(),
      key("overlong", &DataConfig::overlong,
          "What happens to a longer example; every cut is counted and shown.")
          .role(KeyRole::content)
          .makes_examples(),
      key("truncation_side", &DataConfig::truncation_side, "The side on which truncate cuts.")
          .role(KeyRole::content)
          .makes_examples(),
      key("max_prompt_length", &DataConfig::max_prompt_length,
          "Longest prompt: what stands before the first trained token. Cutting takes its beginning.")
          .range(1, 1 << 24)
          .unit("tokens")
          .when_unset("no limit of its own")
          .role(KeyRole::content)
          .makes_examples(),
      key("max_completion_length", &DataConfig::max_completion_length,
          "Longest completion: from the first trained token on. Cutting takes its end.")
          .range(1, 1 << 24)
          .unit("tokens")
          .when_unset("no limit of its own")
          .role(KeyRole::content)
          .makes_examples(),
      key("packing", &DataConfig::packing,
          "Several examples share a row without seeing each other. Changes speed, "
          "not the training.")
          .role(KeyRole::execution),
      key("group_by_length", &DataConfig::group_by_length, "Draw examples of similar length into one step.")
          .role(KeyRole::identity),
      key("shuffle", &DataConfig::shuffle, "New order every epoch, from the seed.").role(KeyRole::identity),
      key("on_bad_row", &DataConfig::on_bad_row,
          "What happens to a row that cannot be used; skip counts and lists it.")
          .role(KeyRole::content)
          .makes_examples(),
  };
}

std::vector<Field> train_fields() {
  return {
      key("epochs", &TrainConfig::epochs, "Passes over the training data.")
          .above(0)
          .when_unset("1, unless another limit is set")
          .role(KeyRole::limit),
      key("max_steps", &TrainConfig::max_steps, "Stop after so many optimizer steps.")
          .at_least(1)
          .unit("steps")
          .when_unset("no limit")
          .role(KeyRole::limit),
      key("max_tokens", &TrainConfig::max_tokens, "Stop after so many tokens.")
          .at_least(1)
          .unit("tokens")
          .when_unset("no limit")
          .role(KeyRole::limit),
      key("max_time", &TrainConfig::max_time,
          "Stop after so much time, everything counted: seconds, or 90s, 30m, 1h30m.")
          .kind(FieldKind::seconds)
          .above(0)
          .unit("seconds")
          .when_unset("no limit")
          .role(KeyRole::limit),
      key("global_batch_size", &TrainConfig::global_batch_size,
          "Examples of one optimizer step, packed or not.")
          .automatic()
          .range(1, 1 << 24)
          .unit("examples")
          .when_unset("32, unless global_batch_tokens is set")
          .role(KeyRole::identity),
      key("global_batch_tokens", &TrainConfig::global_batch_tokens,
          "Tokens of one optimizer step, instead of examples.")
          .at_least(1)
          .unit("tokens")
          .when_unset("global_batch_size counts")
          .role(KeyRole::identity),
      key("micro_batch_size", &TrainConfig::micro_batch_size,
          "Examples computed at once; auto takes the smallest at the throughput knee that fits.")
          .automatic()
          .range(1, 1 << 24)
          .unit("examples")
          .role(KeyRole::execution),
      key("micro_batch_tokens", &TrainConfig::micro_batch_tokens,
          "Tokens computed at once: packed as full as they get, or without packing as many examples in order "
          "as fit.")
          .automatic()
          .at_least(1)
          .unit("tokens")
          .role(KeyRole::execution),
      key("activation_checkpointing", &TrainConfig::activation_checkpointing,
          "Recompute activations in the backward pass to save memory.")
          .automatic()
          .role(KeyRole::execution),
      key("precision", &TrainConfig::precision,
          "Type of frozen weights, activations and matrix inputs; auto is the hardware profile's.")
          .automatic()
          .role(KeyRole::identity),
      key("master_weights", &TrainConfig::master_weights,
          "Hold trained weights in fp32 beside their bf16 or fp16 copy.")
          .role(KeyRole::identity),
      key("max_grad_norm", &TrainConfig::max_grad_norm,
          "Gradients are scaled down to this norm; 0 leaves them.")
          .at_least(0)
          .role(KeyRole::identity),
      key("neftune_alpha", &TrainConfig::neftune_alpha,
          "Strength of the noise on embeddings (NEFTune); 0 is none.")
          .at_least(0)
          .role(KeyRole::identity),
      key("on_nan", &TrainConfig::on_nan,
          "What a loss that is not finite does: stop the run, or skip the step.")
          .role(KeyRole::identity),
      key("deterministic", &TrainConfig::deterministic, "Only kernels that give the same bits every time.")
          .role(KeyRole::execution),
      key("threads", &TrainConfig::threads, "CPU threads.")
          .automatic()
          .range(1, 4096)
          .role(KeyRole::execution),
  };
}

std::vector<Field> optimizer_fields() {
  return {
      key("type", &OptimizerConfig::type, "The optimizer.")
          .later({"adamw_8bit", "adam", "lion", "adafactor", "muon", "sophia", "paged_adamw_8bit"}),
      key("learning_rate", &OptimizerConfig::learning_rate, "Peak learning rate.").above(0),
      key("betas", &OptimizerConfig::betas, "Decay of the first and second moment (adamw).")
          .at_least(0)
          .below(1)
          .length(2),
      key("eps", &OptimizerConfig::eps, "Added to the root of the second moment (adamw).").above(0),
      key("weight_decay", &OptimizerConfig::weight_decay,
          "Decoupled weight decay; norms and biases have none.")
          .at_least(0),
      key("momentum", &OptimizerConfig::momentum, "Momentum (sgd).").at_least(0).below(1),
  };
}

std::vector<Field> schedule_fields() {
  return {
      key("type", &ScheduleConfig::type, "Course of the learning rate after the warmup.")
          .later({"polynomial", "inverse_sqrt", "cosine_with_restarts", "reduce_lr_on_plateau"}),
      key("warmup_steps", &ScheduleConfig::warmup_steps, "Steps from zero to the peak.")
          .at_least(0)
          .unit("steps")
          .share_key("warmup_ratio")
          .when_unset("warmup_ratio counts"),
      key("warmup_ratio", &ScheduleConfig::warmup_ratio, "The same as a share of all steps.").range(0, 1),
      key("min_lr_ratio", &ScheduleConfig::min_lr_ratio, "Last learning rate as a share of the peak.")
          .range(0, 1),
      key("decay_ratio", &ScheduleConfig::decay_ratio, "Share of all steps that decays (wsd).").range(0, 1),
  };
}

std::vector<Field> checkpoint_fields() {
  return {
      key("every_steps", &CheckpointConfig::every_steps, "Steps between checkpoints.")
          .at_least(1)
          .unit("steps")
          .when_unset("only at the end of the run"),
      key("keep_last", &CheckpointConfig::keep_last, "Newest checkpoints that stay on the disk.").at_least(1),
      key("keep_best", &CheckpointConfig::keep_best,
          "Checkpoints of lowest evaluation loss that stay as well.")
          .at_least(0),
  };
}

std::vector<Field> eval_fields() {
  std::vector<Field> early_stopping{
      key("patience", &EarlyStoppingConfig::patience,
          "Evaluations without improvement before the run ends; 0 never ends early.")
          .at_least(0),
      key("min_delta", &EarlyStoppingConfig::min_delta,
          "What counts as an improvement of the evaluation loss.")
          .at_least(0),
  };
  return {
      key("every_steps", &EvalConfig::every_steps, "Steps between evaluations.")
          .at_least(1)
          .unit("steps")
          .when_unset("only at the end of the run"),
      key("at_start", &EvalConfig::at_start, "Evaluate before the first step too."),
      key("samples", &EvalConfig::samples,
          "Prompts from the evaluation data (without any: the training data) that are answered before and "
          "after training, "
          "for the report.")
          .range(0, 64),
      section("early_stopping", &EvalConfig::early_stopping,
              "End the run when evaluation no longer improves.", std::move(early_stopping)),
  };
}

std::vector<Field> log_fields() {
  return {
      key("every_steps", &LogConfig::every_steps, "Steps between lines of metrics.")
          .at_least(1)
          .unit("steps"),
      key("tensorboard", &LogConfig::tensorboard, "Write TensorBoard files into the run folder."),
  };
}

std::vector<Field> hardware_fields() {
  return {
      key("profile", &HardwareConfig::profile,
          "Hardware profile; auto matches the machine (see forge list profiles).")
          .words({"auto"}),
      key("device", &HardwareConfig::device, "Where to train: auto, cpu, cuda or cuda:N.")
          .words({"auto", "cpu", "cuda"}),
      key("memory_limit", &HardwareConfig::memory_limit, "Memory that the run may use: bytes, or 24GiB.")
          .kind(FieldKind::bytes)
          .at_least(1)
          .unit("bytes")
          .when_unset("what the machine has"),
  };
}

std::vector<Field> make_job_fields() {
  return {
      key("version", &Job::version, "Version of this format.").range(1, 1).role(KeyRole::free),
      key("name", &Job::name, "Names the run folder.")
          .when_unset("the job file's name without its ending")
          .role(KeyRole::free),
      key("seed", &Job::seed, "Seed of everything random.").range(0, 4294967295.0).role(KeyRole::identity),
      key("output_dir", &Job::output_dir, "Folder of run folders.").path().role(KeyRole::free),
      section("model", &Job::model, "The model to start from.", model_fields()).shorthand("path").required(),
      section("adapter", &Job::adapter, "How weights change.", adapter_fields())
          .shorthand("type")
          .role(KeyRole::identity),
      section("objective", &Job::objective, "What is minimised.", objective_fields())
          .shorthand("type")
          .role(KeyRole::identity),
      section("data", &Job::data, "What is learned from.", data_fields()).required(),
      section("train", &Job::train, "Length, batch and precision of the run.", train_fields()),
      section("optimizer", &Job::optimizer, "The optimizer.", optimizer_fields())
          .shorthand("type")
          .role(KeyRole::identity),
      section("schedule", &Job::schedule, "The learning rate over time.", schedule_fields())
          .shorthand("type")
          .role(KeyRole::identity),
      section("checkpoint", &Job::checkpoint, "What is kept to continue from.", checkpoint_fields())
          .role(KeyRole::settings),
      section("eval", &Job::eval, "When the model is evaluated.", eval_fields()).role(KeyRole::settings),
      section("log", &Job::log, "What is written down.", log_fields()).role(KeyRole::settings),
      section("hardware", &Job::hardware, "The machine.", hardware_fields()).role(KeyRole::execution),
      key("provider", &Job::provider,
          "Who computes a layer: fused, reference, or auto: the first of them that can (see forge list "
          "providers).")
          .words({"auto"})
          .role(KeyRole::execution),
      key("allow", &Job::allow,
          "What is refused unless it is named here. foreign_template: a data.template whose control tokens "
          "are no "
          "tokens of the model.")
          .words({"foreign_template"})
          .role(KeyRole::free),
  };
}

void inherit_roles(std::vector<Field>& fields, KeyRole role) {
  for (Field& field : fields) {
    if (field.role == KeyRole::none) field.role = role;
    inherit_roles(field.fields, field.role);
  }
}

}  // namespace

const std::vector<Field>& job_fields() {
  static const std::vector<Field> fields = [] {
    std::vector<Field> made = make_job_fields();
    inherit_roles(made, KeyRole::none);
    return made;
  }();
  return fields;
}

}  // namespace forge
