// Keys of the sections model and adapter.
#include "core/job/field_builder.h"
#include "core/job/fields.h"

namespace forge {

std::vector<Field> model_fields() {
  return {
      key("path", &ModelConfig::path,
          "The base model: a Hugging Face folder with safetensors, or a .gguf file.")
          .required()
          .path()
          .role(KeyRole::content),
      key("repo", &ModelConfig::repo,
          "Model on the Hugging Face hub (org/name), read from the cache that transformers uses. "
          "forge fetch JOB downloads it. path then names a file in it, such as a .gguf.")
          .when_unset("path is a local path")
          .role(KeyRole::free),
      key("revision", &ModelConfig::revision, "Branch, tag or commit of repo.").when_unset("main").role(KeyRole::free),
      key("family", &ModelConfig::family,
          "Family file that describes a class of models that forge does not have "
          "(docs/family-files.md). Its content is part of the job.")
          .when_unset("a family of forge's own, or the family.yaml in the model's folder")
          .path()
          .role(KeyRole::content),
      key("init", &ModelConfig::init,
          "Source of the weights: file, or random to train from scratch. random draws normal "
          "values with standard deviation initializer_range (0.02 unless config.json sets "
          "another), using the seed; norms start at 1 and biases at 0. path then provides the "
          "tokenizer and, if it is a folder, the settings of config.json that architecture does "
          "not set."),
      key("architecture", &ModelConfig::architecture,
          "Model settings for init: random, named as in config.json: {model_type: llama, "
          "vocab_size: 8192, hidden_size: 256, ...}. Each one replaces the setting in the folder's "
          "config.json. With another model_type, config.json is not used at all."),
      key("add_tokens", &ModelConfig::add_tokens,
          "Texts to add to the vocabulary as one token each. Their rows of the embedding and of "
          "the head are trained. With an adapter, these rows are stored in it "
          "(adapter.trainable_token_indices), and its tokenizer includes the tokens."),
      key("add_tokens_from", &ModelConfig::add_tokens_from,
          "Initial rows of added tokens: {token: text} starts from the mean of the rows of the "
          "text's tokens. Other added tokens start from the mean of all rows."),
      key("dropout", &ModelConfig::dropout,
          "Dropout inside the base model (attention_dropout, resid_pdrop and others in "
          "config.json). none turns it off in every family. config accepts only models without "
          "dropout, since forge computes none."),
      key("quantization", &ModelConfig::quantization,
          "Quantization of the frozen linear layers. The embedding and the LM head are not "
          "quantized. fp8 (E4M3, one scale per row) also multiplies in 8 bits, with quantized "
          "activations; it runs on Hopper, on data-center Blackwell and, slowly, on a CPU. See "
          "fp8_tolerance."),
      key("double_quantization", &ModelConfig::double_quantization,
          "Also quantize the scales of nf4 and fp4 to 8 bits: 4.127 instead of 4.5 bits per "
          "weight."),
      key("fp8_tolerance", &ModelConfig::fp8_tolerance,
          "Largest relative change of the base model's loss that fp8 may cause. Before the first "
          "step, a run measures the change on the first 16,384 tokens of the evaluation data (of "
          "the training data if there is none), and stops if the difference plus two standard "
          "errors is larger. The change may grow during training.")
          .range(0, 1)
          .role(KeyRole::settings),
  };
}

// A list of names, a regex or all-linear: the forms share two members, and null is the empty list.
Field modules_key(const char* name, std::vector<std::string> AdapterConfig::*modules, bool AdapterConfig::*is_regex,
                  std::vector<std::string> words, const char* doc) {
  Entry entry = key(name, modules, doc).words(words);
  entry.field.kind = FieldKind::targets;
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
  std::vector<Field> eva{
      key("tau", &EvaConfig::tau,
          "Cosine similarity at which a direction has converged: the least similarity before and "
          "after a micro-batch.")
          .range(0, 1),
      key("use_label_mask", &EvaConfig::use_label_mask,
          "Use only the trained tokens, not the prompts."),
      key("whiten", &EvaConfig::whiten,
          "Divide each direction by the square root of its singular value."),
  };
  return {
      key("type", &AdapterConfig::type,
          "Trained parameters: all weights (none) or a low-rank adapter (lora). qlora is short for "
          "lora on a base model in nf4 with double quantization.")
          .also({"qlora"})
          .later({"loha", "lokr", "ia3", "oft", "vera", "prefix", "prompt"}),
      key("rank", &AdapterConfig::rank, "Rank of the low-rank update.").range(1, 65536),
      key("alpha", &AdapterConfig::alpha, "LoRA alpha, above 0. The update is scaled by alpha / rank."),
      key("dropout", &AdapterConfig::dropout,
          "Dropout probability on the input of the adapter during training.")
          .at_least(0)
          .below(1),
      modules_key("target_modules", &AdapterConfig::target_modules, &AdapterConfig::target_is_regex, {"all-linear"},
                  "Layers to adapt: all-linear (every linear layer except the head), a list of "
                  "module name suffixes, or a regex that matches the full module path. "
                  "embed_tokens and lm_head must be named."),
      key("target_parameters", &AdapterConfig::target_parameters,
          "Tensors that hold all experts of a layer, such as mlp.experts.gate_up_proj (gpt-oss). "
          "They are adapted expert by expert, in addition to target_modules. Same as PEFT's "
          "target_parameters."),
      modules_key("exclude_modules", &AdapterConfig::exclude_modules, &AdapterConfig::exclude_is_regex, {},
                  "Modules to exclude from target_modules: a list of module name suffixes, or a "
                  "regex that matches the full module path."),
      key("modules_to_save", &AdapterConfig::modules_to_save,
          "Modules to train in full and store with the adapter, such as lm_head."),
      key("trainable_token_indices", &AdapterConfig::trainable_token_indices,
          "Ids of tokens whose embedding rows are trained, also in a head that shares the "
          "embedding's weights; or a map from module names to such lists: {embed_tokens: [5, 7], "
          "lm_head: [5, 7]}.")
          .at_least(0),
      key("bias", &AdapterConfig::bias,
          "Biases to train: none, those of the adapted layers (lora_only), or all of the model's "
          "(all)."),
      key("use_rslora", &AdapterConfig::use_rslora,
          "Scale by alpha / sqrt(rank) instead of alpha / rank (rank-stabilized LoRA)."),
      key("use_dora", &AdapterConfig::use_dora,
          "Train a magnitude per output row in addition to the direction (DoRA)."),
      key("init", &AdapterConfig::init,
          "Initialization of the adapter: PEFT's default (A uniform, B zero), gaussian (A normal, "
          "B zero), the principal singular vectors of the weight (pissa), its QR decomposition "
          "(olora), its quantization error (loftq), or the principal directions of the layer's "
          "input on the training data (eva; B zero).")
          .later({"corda", "orthogonal"}),
      section("eva", &AdapterConfig::eva, "Settings of init: eva.", std::move(eva)),
      key("lora_plus_ratio", &AdapterConfig::lora_plus_ratio,
          "Ratio of the learning rate of B to that of A (LoRA+).")
          .above(0),
      key("rank_pattern", &AdapterConfig::rank_pattern,
          "Ranks of individual modules: module name suffix or regex to rank. The first pattern "
          "that matches is used.")
          .range(1, 65536),
      key("alpha_pattern", &AdapterConfig::alpha_pattern,
          "Alphas of individual modules: module name suffix or regex to alpha. The first pattern "
          "that matches is used.")
          .above(0),
      key("layers_to_transform", &AdapterConfig::layers_to_transform, "Indices of the layers to adapt.")
          .at_least(0)
          .when_unset("all layers"),
      key("init_from", &AdapterConfig::init_from, "PEFT adapter folder to continue training from.")
          .path(),
  };
}

}  // namespace forge
