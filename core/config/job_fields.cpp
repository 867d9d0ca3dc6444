// The tables of job.yaml: every key with its sentence, range, choices and what another value means to a run. Defaults
// stand in job.h.
#include "core/config/field_builder.h"

namespace forge {
namespace {

std::vector<Field> model_fields() {
  return {
      key("path", &ModelConfig::path,
          "The base model: a Hugging Face folder with safetensors, or a .gguf file.")
          .required()
          .path()
          .role(KeyRole::content),
      key("repo", &ModelConfig::repo,
          "A model of the Hugging Face hub, org/name, in the cache that transformers shares; forge fetch JOB downloads it. "
          "path then names a file in it, such as a .gguf.")
          .when_unset("path is on this machine")
          .role(KeyRole::free),
      key("revision", &ModelConfig::revision, "Branch, tag or commit of repo.").when_unset("main").role(KeyRole::free),
      key("init", &ModelConfig::init,
          "Where the weights come from: file, or random for a model that is trained from nothing: normal numbers with the standard "
          "deviation initializer_range (0.02 unless config.json says another), drawn with the seed; norms begin at 1 and biases at 0. "
          "path then gives the tokenizer, and a folder's config.json what architecture does not say.")
          .role(KeyRole::identity),
      key("architecture", &ModelConfig::architecture,
          "The model of init: random, by config.json's settings: {model_type: llama, vocab_size: 8192, hidden_size: 256, ...}. They replace "
          "the folder's config.json one by one, or as a whole where model_type differs.")
          .role(KeyRole::identity),
      key("add_tokens", &ModelConfig::add_tokens,
          "Texts that become one token each. Their rows of the embedding and of the head are trained; with an adapter they are stored in it "
          "(adapter.trainable_token_indices), and the adapter's tokenizer has them.")
          .role(KeyRole::identity),
      key("add_tokens_from", &ModelConfig::add_tokens_from,
          "Where rows of added tokens start: {token: a text}, from the mean of the rows of that text's tokens; others from the mean of all rows.")
          .role(KeyRole::identity),
      key("quantization", &ModelConfig::quantization,
          "Quantization of the frozen linear layers. The embedding and the LM head are not quantized.")
          .role(KeyRole::identity),
      key("double_quantization", &ModelConfig::double_quantization,
          "Quantize the scales of nf4 and fp4 to 8 bits as well: 4.127 instead of 4.5 bits per weight.")
          .role(KeyRole::identity),
  };
}

// A list of names, a regex or all-linear: the forms share two members, and null is the empty list.
Field modules_key(const char* name, std::vector<std::string> AdapterConfig::*modules, bool AdapterConfig::*is_regex,
                  std::vector<std::string> words, const char* doc) {
  Entry entry = key(name, modules, doc).kind(FieldKind::targets).words(words);
  entry.field.get = [=](const void* object) -> FieldValue {
    const auto& adapter = *static_cast<const AdapterConfig*>(object);
    const std::vector<std::string>& given = adapter.*modules;
    if (adapter.*is_regex || (!words.empty() && given == words)) return given.at(0);
    return given;
  };
  entry.field.set = [=](void* object, FieldValue value) {
    auto& adapter = *static_cast<AdapterConfig*>(object);
    const auto* text = std::get_if<std::string>(&value);
    adapter.*is_regex = text && (words.empty() || *text != words[0]);
    adapter.*modules = text ? std::vector{*text} : std::get<std::vector<std::string>>(value);
  };
  return std::move(entry.field);
}

std::vector<Field> adapter_fields() {
  return {
      key("type", &AdapterConfig::type,
          "What is trained: all weights (none) or a low-rank adapter (lora). qlora is short for lora on a "
          "base model in nf4 with double quantization.")
          .also({"qlora"})
          .later({"loha", "lokr", "ia3", "oft", "vera", "prefix", "prompt"}),
      key("rank", &AdapterConfig::rank, "Rank of the low-rank update.").range(1, 65536),
      key("alpha", &AdapterConfig::alpha, "LoRA alpha, above 0. The update is scaled by alpha / rank."),
      key("dropout", &AdapterConfig::dropout, "Dropout on the input of the adapter during training.")
          .at_least(0)
          .below(1),
      modules_key("target_modules", &AdapterConfig::target_modules, &AdapterConfig::target_is_regex, {"all-linear"},
                  "Layers to adapt: all-linear (every linear layer but the head), a list of module name suffixes, or a regex that "
                  "matches the full module path. embed_tokens and lm_head by name."),
      key("target_parameters", &AdapterConfig::target_parameters,
          "Tensors that hold all experts of a layer, to adapt expert by expert beside target_modules: "
          "mlp.experts.gate_up_proj (gpt-oss). As PEFT's key of this name."),
      modules_key("exclude_modules", &AdapterConfig::exclude_modules, &AdapterConfig::exclude_is_regex, {},
                  "What to leave out of target_modules: module name suffixes, or a regex that matches the full module path."),
      key("modules_to_save", &AdapterConfig::modules_to_save,
          "Modules to train in full and store with the adapter, such as lm_head."),
      key("trainable_token_indices", &AdapterConfig::trainable_token_indices,
          "Ids of tokens whose rows of the embedding are trained, and of a head that shares its weights; or module names to such lists: "
          "{embed_tokens: [5, 7], lm_head: [5, 7]}.")
          .at_least(0),
      key("bias", &AdapterConfig::bias, "Which biases are trained: none, or those of the adapted layers (lora_only).").later({"all"}),
      key("use_rslora", &AdapterConfig::use_rslora,
          "Scale by alpha / sqrt(rank) instead of alpha / rank (rank-stabilized LoRA)."),
      key("use_dora", &AdapterConfig::use_dora,
          "Train a magnitude per output row in addition to the direction (DoRA)."),
      key("init", &AdapterConfig::init,
          "Initialization of the adapter: PEFT's default (A uniform, B zero), gaussian (A normal, B zero), "
          "the principal singular vectors of the weight (pissa), its QR decomposition (olora), or what quantization lost of it (loftq).")
          .later({"eva", "corda", "orthogonal"}),
      key("lora_plus_ratio", &AdapterConfig::lora_plus_ratio,
          "Learning rate of B divided by that of A (LoRA+).")
          .above(0),
      key("rank_pattern", &AdapterConfig::rank_pattern,
          "Ranks for individual modules: module name suffix or regex to rank.")
          .range(1, 65536),
      key("alpha_pattern", &AdapterConfig::alpha_pattern,
          "Alphas for individual modules: module name suffix or regex to alpha.")
          .above(0),
      key("layers_to_transform", &AdapterConfig::layers_to_transform, "Indices of the layers to adapt.")
          .at_least(0)
          .when_unset("all layers"),
      key("init_from", &AdapterConfig::init_from, "A PEFT adapter folder to continue training from.").path(),
  };
}

std::vector<Field> advantage_fields() {
  return {
      key("baseline", &AdvantageConfig::baseline,
          "grpo: what a completion's reward is compared with: the mean of its group (group), the mean of "
          "the rest of its group (others), or nothing (none)."),
      key("scale", &AdvantageConfig::scale,
          "grpo, ppo: what the advantage is divided by: the standard deviation of the group, that of the whole "
          "rollout (batch), or nothing (none)."),
  };
}

std::vector<Field> kl_fields() {
  return {
      key("weight", &KlConfig::weight,
          "grpo, ppo: weight of the KL divergence from the base model. With 0 no reference model is needed.").at_least(0),
      key("measure", &KlConfig::measure,
          "grpo, ppo: with weight 0, compute and report the divergence all the same, for one forward pass more of every completion."),
      key("estimator", &KlConfig::estimator,
          "grpo, ppo: how the KL divergence of a token is estimated from the difference x of the "
          "log-probabilities: x (k1), x²/2 (k2) or e^−x − 1 + x (k3). In the loss, k2 and k3 have the "
          "gradient of the divergence itself; k1 has zero gradient on average and is refused there."),
      key("in", &KlConfig::in,
          "grpo, ppo: add the divergence to the loss of each token, or subtract its sum over the completion "
          "from the reward."),
  };
}

std::vector<Field> value_fields() {
  return {
      key("clip", &ValueConfig::clip,
          "ppo: a value further than this from the old one is clipped in the value loss. With 0 there is no clipping.")
          .at_least(0),
      key("learning_rate_ratio", &ValueConfig::learning_rate_ratio,
          "ppo: learning rate of the value network divided by that of the policy.")
          .above(0),
      key("pretrain_steps", &ValueConfig::pretrain_steps,
          "ppo: number of steps at the start in which only the value network is trained.")
          .at_least(0)
          .unit("steps"),
  };
}

std::vector<Field> objective_fields() {
  return {
      key("type", &ObjectiveConfig::type,
          "What is minimized. From text: the loss on the answers (sft) or on everything (pretrain). From "
          "pairs of a chosen and a rejected answer: a preference loss with a reference model (dpo) or "
          "without one (simpo, orpo, cpo), or a model that scores answers (reward). From single answers "
          "labeled good or bad: kto. From rewards of completions that the model samples itself: grpo, "
          "which compares them within a group, or ppo, which trains a value network beside the policy. "
          "dr_grpo, dapo, gspo, cispo, sapo, gepo, rloo and reinforce++ are short for grpo with other "
          "settings, vapo for ppo with other settings; forge plan shows them.")
          .also({"dr_grpo", "dapo", "gspo", "cispo", "sapo", "gepo", "rloo", "reinforce++", "vapo"})
          .makes_examples(),
      key("train_on", &ObjectiveConfig::train_on,
          "Which tokens contribute to the loss: every assistant turn, the last one, each assistant turn as "
          "an example of its own with the turns before it as context, the completion of a prompt-completion "
          "pair, or all tokens.")
          .makes_examples(),
      key("label_smoothing", &ObjectiveConfig::label_smoothing,
          "Label smoothing: the share of the target probability that is spread evenly over the "
          "vocabulary.")
          .at_least(0)
          .below(1),
      key("z_loss", &ObjectiveConfig::z_loss,
          "Coefficient of the z-loss, logsumexp², which keeps logits small.")
          .at_least(0),
      key("loss", &ObjectiveConfig::loss, "dpo: the loss of a pair. forge plan prints its formula."),
      key("beta", &ObjectiveConfig::beta,
          "dpo, simpo, cpo, kto: how strongly the loss separates the answers. In dpo and kto, a smaller "
          "value lets the model move farther from the reference.")
          .above(0)
          .when_unset("0.1; simpo 2"),
      key("label_flip", &ObjectiveConfig::label_flip,
          "dpo: assumed share of pairs whose labels are swapped (loss sigmoid, robust or exo_pair).")
          .at_least(0)
          .below(0.5),
      key("nll_weight", &ObjectiveConfig::nll_weight,
          "Weight of the chosen answer's negative log-likelihood (mean over its tokens), added to the "
          "preference loss.")
          .at_least(0)
          .when_unset("0; orpo and cpo 1"),
      key("nll_mean", &ObjectiveConfig::nll_mean,
          "How that likelihood is averaged: over the tokens of each chosen answer (pair), or over the "
          "tokens of all chosen answers of the step (token).")
          .when_unset("pair"),
      key("nll_on", &ObjectiveConfig::nll_on,
          "Which tokens of the chosen text that likelihood covers: those of the answer (completion), or the prompt's as well (all), as "
          "TRL's ORPO and CPO have it.")
          .makes_examples(),
      key("gamma", &ObjectiveConfig::gamma, "simpo: target margin between the two answers.").at_least(0),
      key("odds_weight", &ObjectiveConfig::odds_weight, "orpo: weight of the odds-ratio term.").above(0),
      key("desirable_weight", &ObjectiveConfig::desirable_weight,
          "kto: weight of the good answers. forge plan shows the ratio of good to bad ones and suggests a "
          "weight.")
          .above(0),
      key("undesirable_weight", &ObjectiveConfig::undesirable_weight, "kto: weight of the bad answers.").above(0),
      key("center", &ObjectiveConfig::center,
          "reward: coefficient of the squared sum of a pair's two rewards, which keeps rewards centered "
          "at 0.")
          .at_least(0),
      key("reference", &ObjectiveConfig::reference,
          "dpo, kto: the reference model: the base model without the adapter (base), or the model as it "
          "is when training starts (start). They differ only if adapter.init_from continues an adapter; "
          "auto then uses start, otherwise base.")
          .automatic(),
      key("reference_cache", &ObjectiveConfig::reference_cache,
          "dpo, kto: compute the reference log-probabilities once, before the first step, instead of in "
          "every step.")
          .automatic(),
      key("policy", &ObjectiveConfig::policy,
          "grpo: the loss, given the ratio r of new to old probability: clipped (clip), a capped weight "
          "on the log-probability (cispo), a smooth gate (sapo), or the log-probability alone "
          "(reinforce)."),
      key("ratio", &ObjectiveConfig::ratio,
          "grpo: what r is the ratio of: each token's probability (token), their geometric mean over the "
          "completion (sequence), their product (sum), or the completion's probability over its group's "
          "expectation (group)."),
      key("clip_low", &ObjectiveConfig::clip_low,
          "grpo, ppo: r is clipped from below at 1 minus this (policy clip).").at_least(0).below(1),
      key("clip_high", &ObjectiveConfig::clip_high,
          "grpo, ppo: r is clipped from above at 1 plus this (policy clip, cispo).").at_least(0),
      key("dual_clip", &ObjectiveConfig::dual_clip,
          "grpo, ppo: upper limit of r for completions with a negative advantage (policy clip).")
          .above(1)
          .when_unset("no limit"),
      key("mean", &ObjectiveConfig::mean,
          "grpo, ppo: how the loss of a step is averaged: over its trained tokens (token), over completions "
          "after averaging each over its own tokens (sequence), or divided by completions times "
          "rollout.max_new_tokens (constant)."),
      section("advantage", &ObjectiveConfig::advantage, "grpo, ppo: how rewards become advantages.", advantage_fields()),
      section("kl", &ObjectiveConfig::kl, "grpo, ppo: the divergence from the base model.", kl_fields()).shorthand("weight"),
      key("entropy_weight", &ObjectiveConfig::entropy_weight, "grpo, ppo: weight of the entropy bonus.")
          .at_least(0),
      key("updates_per_rollout", &ObjectiveConfig::updates_per_rollout,
          "grpo, ppo: number of optimizer steps a rollout is split into, by prompts.")
          .range(1, 4096)
          .unit("steps"),
      key("epochs_per_rollout", &ObjectiveConfig::epochs_per_rollout,
          "grpo, ppo: number of passes over each rollout.")
          .range(1, 64),
      key("mask_truncated", &ObjectiveConfig::mask_truncated,
          "grpo, ppo: exclude completions from the loss that were cut off at rollout.max_new_tokens."),
      key("gamma_discount", &ObjectiveConfig::gamma_discount,
          "ppo: discount factor γ of the rewards that follow a token.")
          .above(0)
          .range(0, 1),
      key("lambda_policy", &ObjectiveConfig::lambda_policy,
          "ppo: λ of the generalized advantage estimates that train the policy.")
          .range(0, 1),
      key("lambda_value", &ObjectiveConfig::lambda_value,
          "ppo: λ of the returns that train the value network.")
          .range(0, 1),
      key("lambda_length", &ObjectiveConfig::lambda_length,
          "ppo: replaces lambda_policy: λ of a completion of n tokens is 1 − 1 / (this · n), at least 0 (vapo: 0.05).")
          .above(0)
          .when_unset("lambda_policy"),
      key("success_nll", &ObjectiveConfig::success_nll,
          "ppo: weight of the negative log-likelihood of successful completions: those that the first entry of "
          "rewards scores 1 or more.")
          .at_least(0),
      section("value", &ObjectiveConfig::value,
              "ppo: the value network: the same base with its own adapter (with adapter none, a copy of all "
              "weights) and a head with one output.",
              value_fields()),
  };
}

std::vector<Field> source_fields() {
  return {
      key("path", &DataSource::path,
          "A data file (.jsonl, .json, .csv, .tsv, .txt, .md or .parquet; text files also as .gz or .zst), a "
          "folder of them, or a glob pattern such as data/*.jsonl.")
          .required()
          .path(),
      key("repo", &DataSource::repo,
          "A dataset of the Hugging Face hub, org/name, in the cache on this machine; forge fetch JOB downloads it. path then "
          "names a file or a pattern in it.")
          .when_unset("path is a place on this machine"),
      key("revision", &DataSource::revision, "Branch, tag or commit of repo.").when_unset("main"),
      key("format", &DataSource::format,
          "Format of the rows. auto detects it from the first rows, and the plan shows what it found. "
          "dpo, simpo, orpo, cpo and reward train on preference rows, kto on kto rows or on both answers "
          "of preference rows, grpo on prompt rows, sft and pretrain on the rest. reward rows (an answer "
          "with its score) can be inspected with forge data, but no objective trains on them yet.")
          .makes_examples(),
      key("limit", &DataSource::limit, "Use only this many rows, after those skipped.")
          .at_least(1)
          .unit("rows")
          .when_unset("all rows")
          .makes_examples(),
      key("skip", &DataSource::skip, "Skip this many rows at the beginning.")
          .at_least(0)
          .unit("rows")
          .makes_examples(),
      key("weight", &DataSource::weight,
          "How often each row is used per epoch. With 2.5 every row is used twice and half of them once "
          "more, chosen by the hash of the row and the seed.")
          .above(0)
          .range(0, 1000)
          .makes_examples(),
      key("columns", &DataSource::columns,
          "Which columns hold forge's fields: {instruction: question, output: answer.text}. from, value, "
          "role and content rename the keys of each turn.")
          .when_unset("the fields have forge's names")
          .makes_examples(),
      key("roles", &DataSource::roles,
          "Maps the role names of the data: {Customer: user, Agent: assistant}. Known roles are system, "
          "user, assistant, tool and tool_call.")
          .when_unset("the usual names")
          .makes_examples(),
      key("prompt", &DataSource::prompt,
          "Template for the prompt, with fields of the row in braces: \"Q: {question}\\nA:\". Double a brace "
          "to write it literally.")
          .when_unset("the row's own prompt")
          .makes_examples(),
      key("completion", &DataSource::completion, "Template for the completion. Used together with prompt.")
          .when_unset("the row's own completion")
          .makes_examples(),
      key("ignore", &DataSource::ignore,
          "Keys of rows and turns to ignore deliberately, such as a context, a score or images.")
          .when_unset("keys that would change the training are refused, others are reported")
          .makes_examples(),
      key("sample_by", &DataSource::sample_by,
          "What counts as a row in a text file: the whole document, a paragraph (separated by blank lines) "
          "or a line.")
          .makes_examples(),
  };
}

std::vector<Field> data_fields() {
  return {
      sections(
          "train", &DataConfig::train,
          "Training data: a file, folder or glob pattern, a list of them, or a list of {path, format, …}.",
          source_fields())
          .required()
          .shorthand("path")
          .role(KeyRole::content),
      sections("eval", &DataConfig::eval, "Evaluation data, in the same forms.", source_fields())
          .shorthand("path")
          .role(KeyRole::free),
      key("eval_fraction", &DataConfig::eval_fraction,
          "Fraction of the training rows to hold out for evaluation, chosen by the hash of each row.")
          .at_least(0)
          .below(1)
          .role(KeyRole::content)
          .makes_examples(),
      key("template", &DataConfig::template_name,
          "Chat template: the model's own (auto), a .jinja file, or the name of a bundled template.")
          .words({"auto"})
          .role(KeyRole::content),
      key("template_variables", &DataConfig::template_variables,
          "Variables to pass to the chat template, such as {enable_thinking: false}. They are stored with "
          "the template in the result.")
          .role(KeyRole::content),
      key("max_length", &DataConfig::max_length, "Maximum length of an example.")
          .range(1, 1 << 24)
          .unit("tokens")
          .role(KeyRole::content)
          .makes_examples(),
      key("overlong", &DataConfig::overlong,
          "What to do with longer examples. Everything that is cut is counted and reported.")
          .role(KeyRole::content)
          .makes_examples(),
      key("truncation_side", &DataConfig::truncation_side, "Which side truncate removes tokens from.")
          .role(KeyRole::content)
          .makes_examples(),
      key("max_prompt_length", &DataConfig::max_prompt_length,
          "Maximum length of the prompt, which is everything before the first trained token. Longer prompts "
          "lose their beginning.")
          .range(1, 1 << 24)
          .unit("tokens")
          .when_unset("no limit of its own")
          .role(KeyRole::content)
          .makes_examples(),
      key("max_completion_length", &DataConfig::max_completion_length,
          "Maximum length of the completion, which starts at the first trained token. Longer completions "
          "lose their end.")
          .range(1, 1 << 24)
          .unit("tokens")
          .when_unset("no limit of its own")
          .role(KeyRole::content)
          .makes_examples(),
      key("packing", &DataConfig::packing,
          "Pack several examples into one row; they do not attend to each other. Affects speed, not the "
          "result.")
          .role(KeyRole::execution),
      key("join_documents", &DataConfig::join_documents,
          "Lay the texts of pretrain end to end and cut them into rows of max_length tokens, in which attention crosses from one text "
          "into the next. Otherwise texts share rows but do not see each other, and overlong says what becomes of long ones.")
          .role(KeyRole::content)
          .makes_examples(),
      key("group_by_length", &DataConfig::group_by_length, "Batch examples of similar length together.")
          .role(KeyRole::identity),
      key("shuffle", &DataConfig::shuffle, "Shuffle the examples in every epoch, based on the seed.")
          .role(KeyRole::identity),
      key("on_bad_row", &DataConfig::on_bad_row,
          "What to do with rows that cannot be used: stop with an error, or skip them; skipped rows are "
          "counted and listed.")
          .role(KeyRole::content)
          .makes_examples(),
  };
}

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
      key("precision", &TrainConfig::precision,
          "Data type of frozen weights, activations and matrix products. auto takes that of the hardware "
          "profile.")
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

std::vector<Field> reward_fields() {
  return {
      key("name", &RewardConfig::name, "Name of the reward in tables, metrics and requires.")
          .when_unset("the type"),
      key("type", &RewardConfig::type,
          "How completions are scored. exact, contains and regex compare text; numeric and math compare "
          "values; choice compares option letters; json_schema and tags check a format; length, "
          "repetition and overlong measure the text; command runs a program of yours, http asks a server, and model a "
          "reward model on disk.")
          .required(),
      key("weight", &RewardConfig::weight,
          "Factor of the score in the total. With 0 the reward is measured but not trained on.")
          .range(-1e6, 1e6),
      key("requires", &RewardConfig::needs,
          "Name of another reward: this one counts only where the other is above 0, and is 0 elsewhere."),
      key("on_error", &RewardConfig::on_error,
          "What to do when there is no score because a process failed or a row has no usable reference "
          "answer: stop, or leave the completion unscored. A missing score is never counted as 0."),
      key("max_unscored", &RewardConfig::max_unscored,
          "Largest share of a batch that may stay unscored; the run stops above it.")
          .range(0, 1),
      key("answer", &RewardConfig::answer,
          "Column of the row that holds the reference answer, or a dotted path to it (exact, regex, numeric, math, "
          "choice).")
          .when_unset("answer; with regex, groups are not compared"),
      key("extract", &RewardConfig::extract,
          "Where the answer is in the completion (exact, numeric, math, choice): whole, last (the last "
          "number, formula or letter), boxed (the last \\boxed{…}), \"after TEXT\" (after the last TEXT), "
          "\"tag NAME\" (inside the last <NAME>) or \"regex PATTERN\" (the first group of the last match). "
          "auto is whole for exact, and boxed, else last, for the others.")
          .words({"auto", "whole", "last", "boxed"}),
      key("strip", &RewardConfig::strip, "Ignore leading and trailing whitespace of both texts (exact)."),
      key("casefold", &RewardConfig::casefold, "Ignore case (exact, contains)."),
      key("tolerance", &RewardConfig::tolerance,
          "Relative difference that still counts as equal (numeric, math). With 0, numeric compares exactly.")
          .at_least(0)
          .below(1),
      key("partial", &RewardConfig::partial,
          "Score of an answer that has the right form but is wrong (numeric, math, choice, json_schema).")
          .range(0, 1),
      key("choices", &RewardConfig::choices, "The letters or words to choose from (choice)."),
      key("all", &RewardConfig::all,
          "Texts that should occur; the score is the share of them that do (contains).")
          .when_unset("none"),
      key("none", &RewardConfig::none, "Texts that should not occur (contains).").when_unset("none"),
      key("pattern", &RewardConfig::pattern,
          "A regular expression in PCRE2 syntax (regex). With answer, the score is the share of its "
          "groups that equal the reference answer."),
      key("match", &RewardConfig::match,
          "Whether the pattern must match the whole completion or may match anywhere in it (regex)."),
      key("schema", &RewardConfig::schema, "File with a JSON Schema (json_schema).").path(),
      key("where", &RewardConfig::where,
          "Where the JSON is: the whole completion, the last fenced code block, or the last object or "
          "array in the text (json_schema)."),
      key("tags", &RewardConfig::tags,
          "Names of tags that should each occur once, in this order, with nothing outside them (tags).")
          .when_unset("none"),
      key("strict", &RewardConfig::strict, "Score 1 or 0 instead of the share of conditions that hold (tags)."),
      key("unit", &RewardConfig::unit, "What length counts."),
      key("min", &RewardConfig::min, "Shortest length with score 1 (length).").at_least(0),
      key("max", &RewardConfig::max,
          "Longest length with score 1 (length); the limit of completion tokens (overlong).")
          .at_least(1),
      key("target", &RewardConfig::target, "Column of the row that holds the wanted length (length)."),
      key("slack", &RewardConfig::slack,
          "How far outside min, max or target the score has fallen linearly to 0 (length).")
          .at_least(0),
      key("ngram", &RewardConfig::ngram, "Number of words whose repetition is counted (repetition).")
          .range(1, 100)
          .unit("words"),
      key("buffer", &RewardConfig::buffer,
          "Number of tokens before max over which the penalty grows linearly (overlong), as in DAPO.")
          .at_least(0)
          .unit("tokens"),
      key("penalty", &RewardConfig::penalty,
          "Largest penalty: scores lie between 0 and minus this (repetition, overlong).")
          .above(0),
      key("command", &RewardConfig::command,
          "A program and its arguments (command). A single text is split at spaces; no shell is involved. "
          "The program speaks JSON lines: see docs/rewards.md.")
          .when_unset("none"),
      key("workers", &RewardConfig::workers, "Number of processes the completions are spread over (command).")
          .range(1, 256),
      key("timeout", &RewardConfig::timeout, "Time limit for one completion (command).")
          .kind(FieldKind::seconds)
          .above(0)
          .unit("seconds"),
      key("memory_limit", &RewardConfig::memory_limit,
          "Address space limit of each process: bytes, or a size such as 2GiB (command).")
          .kind(FieldKind::bytes)
          .at_least(1 << 20)
          .unit("bytes")
          .when_unset("no limit"),
      key("environment", &RewardConfig::environment,
          "Names of environment variables to pass on, in addition to the ones every process gets "
          "(command).")
          .when_unset("none"),
      key("directory", &RewardConfig::directory, "Working directory of the process (command).")
          .path()
          .when_unset("the folder of the job file"),
      key("url", &RewardConfig::url, "Address that each completion is sent to, http:// or https:// (http).").when_unset("needed"),
      key("field", &RewardConfig::field, "Where the score stands in the server's answer, a dotted path (http)."),
      key("headers", &RewardConfig::headers, "Headers of the request by name; secrets as ${env:NAME} (http).").when_unset("none"),
      key("concurrency", &RewardConfig::concurrency, "Requests on their way at the same time (http).").range(1, 256),
      key("path", &RewardConfig::path,
          "The reward model: a folder of transformers' AutoModelForSequenceClassification or of objective: reward (model).")
          .path()
          .when_unset("needed"),
  };
}

std::vector<Field> reward_mix_fields() {
  return {
      key("normalize_each", &RewardMixConfig::normalize_each,
          "Standardize each reward within its group (mean 0, standard deviation 1) before weighting."),
      key("clip", &RewardMixConfig::clip, "Clip the total to between minus this and this.")
          .above(0)
          .when_unset("not limited"),
  };
}

std::vector<Field> server_fields() {
  return {
      key("url", &ServerConfig::url, "Address of the API, up to and with /v1: http:// or https://.").when_unset("needed").role(KeyRole::settings),
      key("headers", &ServerConfig::headers, "Headers of every request by name; secrets as ${env:NAME}.")
          .when_unset("none")
          .role(KeyRole::settings),
      key("timeout", &ServerConfig::timeout, "Time limit for one completion.")
          .kind(FieldKind::seconds)
          .above(0)
          .unit("seconds")
          .role(KeyRole::settings),
      key("concurrency", &ServerConfig::concurrency, "Requests on their way at the same time.").range(1, 1024).role(KeyRole::settings),
      key("adapter_folder", &ServerConfig::adapter_folder,
          "Where the server sees the run's folder rollouts/adapters, as an absolute path on its machine.")
          .when_unset("at the same place")
          .role(KeyRole::settings),
      key("max_gap", &ServerConfig::max_gap,
          "Largest mean difference a token between the server's log-probabilities and the trainer's; a rollout beyond it stops "
          "the run.")
          .above(0)
          .unit("nats")
          .role(KeyRole::settings),
  };
}

std::vector<Field> tools_fields() {
  return {
      key("command", &ToolsConfig::command,
          "A program and its arguments that answers calls, speaking JSON lines. A single text is split at spaces; no shell is "
          "involved.")
          .when_unset("completions have one turn"),
      key("max_turns", &ToolsConfig::max_turns, "Most turns of the model in one completion.").range(2, 1024).unit("turns"),
      key("on_error", &ToolsConfig::on_error,
          "What a call without an answer means (time-out, crash, an error it states): the run stops, or the completion is left out "
          "as unscored."),
      key("workers", &ToolsConfig::workers, "Number of processes the calls are spread over.").range(1, 256),
      key("timeout", &ToolsConfig::timeout, "Time limit for one call.").kind(FieldKind::seconds).above(0).unit("seconds"),
      key("memory_limit", &ToolsConfig::memory_limit, "Address space limit of each process: bytes, or a size such as 2GiB.")
          .kind(FieldKind::bytes)
          .at_least(1 << 20)
          .unit("bytes")
          .when_unset("no limit"),
      key("environment", &ToolsConfig::environment,
          "Names of environment variables to pass on, in addition to the ones every process gets.")
          .when_unset("none"),
      key("directory", &ToolsConfig::directory, "Working directory of the process.").path().when_unset("the folder of the job file"),
  };
}

std::vector<Field> rollout_fields() {
  std::vector<Field> dynamic{
      key("reward", &DynamicSamplingConfig::reward,
          "Name of the reward that decides which groups are kept; new prompts are drawn to replace the "
          "others.")
          .when_unset("every group is kept"),
      key("keep", &DynamicSamplingConfig::keep,
          "A group is kept if its mean score lies strictly between these two values.").length(2),
      key("max_rounds", &DynamicSamplingConfig::max_rounds,
          "Maximum number of sampling rounds for one rollout.").range(1, 1024),
  };
  return {
      key("provider", &RolloutConfig::provider,
          "Who generates the completions: the engine itself (here), with the weights being trained, or a server that is "
          "given each new adapter (http)."),
      key("prompts_per_step", &RolloutConfig::prompts_per_step, "Number of prompts per rollout.").range(1, 1 << 20).unit("prompts"),
      key("samples_per_prompt", &RolloutConfig::samples_per_prompt,
          "Number of completions per prompt: the size of a group.").range(1, 4096),
      key("max_new_tokens", &RolloutConfig::max_new_tokens, "Maximum length of a completion.").range(1, 1 << 20).unit("tokens"),
      key("temperature", &RolloutConfig::temperature,
          "Sampling temperature. Training computes log-probabilities at the same temperature.")
          .above(0)
          .range(0, 100),
      key("stop", &RolloutConfig::stop,
          "Texts that end a completion, in addition to the model's end tokens. Each is matched as the "
          "tokens it is encoded to.")
          .when_unset("none"),
      key("slots", &RolloutConfig::slots,
          "Number of completions generated at the same time, in whole groups. auto uses as many as fit "
          "into memory.")
          .automatic()
          .range(1, 1 << 20)
          .unit("completions")
          .role(KeyRole::execution),
      key("lookup_tokens", &RolloutConfig::lookup_tokens,
          "Most tokens that are guessed at once from what a prompt and its completion hold already (prompt lookup), and computed "
          "together in slots that ended completions left free. Only what would have been drawn is kept. 0 guesses nothing.")
          .range(0, 64)
          .unit("tokens")
          .role(KeyRole::execution),
      section("dynamic_sampling", &RolloutConfig::dynamic_sampling,
              "Keep sampling until a rollout has enough groups that are neither all right nor all wrong "
              "(DAPO).", std::move(dynamic)),
      section("server", &RolloutConfig::server,
              "The server of provider http: see docs/rollout-server.md for what it must be.", server_fields()),
      section("tools", &RolloutConfig::tools,
              "A process that answers the model's calls, so that a completion goes on for several turns: see docs/tools.md.",
              tools_fields()),
  };
}

std::vector<Field> make_job_fields() {
  return {
      key("version", &Job::version, "Version of the job format.").range(1, 1).role(KeyRole::free),
      key("name", &Job::name, "Name of the run and its folder.")
          .when_unset("the job file's name without its ending")
          .role(KeyRole::free),
      key("seed", &Job::seed, "Random seed.").range(0, 4294967295.0).role(KeyRole::identity),
      key("output_dir", &Job::output_dir, "Folder to write runs to.").path().role(KeyRole::free),
      section("model", &Job::model, "The base model.", model_fields()).shorthand("path").required(),
      section("adapter", &Job::adapter, "What is trained: all weights, or an adapter.", adapter_fields())
          .shorthand("type")
          .role(KeyRole::identity),
      section("objective", &Job::objective, "What is minimized.", objective_fields())
          .shorthand("type")
          .role(KeyRole::identity),
      section("data", &Job::data, "Training and evaluation data.", data_fields()).required(),
      section("train", &Job::train, "Duration, batch size and precision.", train_fields()),
      section("optimizer", &Job::optimizer, "The optimizer.", optimizer_fields())
          .shorthand("type")
          .role(KeyRole::identity),
      section("schedule", &Job::schedule, "Learning rate schedule.", schedule_fields())
          .shorthand("type")
          .role(KeyRole::identity),
      section("checkpoint", &Job::checkpoint, "When to save checkpoints and how many to keep.",
              checkpoint_fields())
          .role(KeyRole::settings),
      section("eval", &Job::eval, "When to evaluate.", eval_fields()).role(KeyRole::settings),
      section("log", &Job::log, "What to log.", log_fields()).role(KeyRole::settings),
      section("hardware", &Job::hardware, "The machine to train on.", hardware_fields())
          .role(KeyRole::execution),
      sections("rewards", &Job::rewards,
              "What completions are scored by: a list of {type, weight, …}. The total is the weighted sum "
              "of the scores. Try them on rows with forge score.",
               reward_fields())
          .shorthand("type")
          .role(KeyRole::identity),
      section("reward_mix", &Job::reward_mix, "How rewards are combined.", reward_mix_fields())
          .role(KeyRole::identity),
      section("rollout", &Job::rollout, "How completions are generated.", rollout_fields()).role(KeyRole::identity),
      key("provider", &Job::provider,
          "Which implementation computes the layers: fused, reference, or auto, which takes the first that "
          "supports the job (see forge list providers).")
          .words({"auto"})
          .role(KeyRole::execution),
      key("allow", &Job::allow,
          "Checks to turn off. foreign_template: use a data.template whose control tokens are not tokens of "
          "the model.")
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
