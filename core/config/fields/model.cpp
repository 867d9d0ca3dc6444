// Keys of the sections model and adapter.
#include "core/config/field_builder.h"
#include "core/config/fields.h"

namespace forge {

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
      key("dropout", &ModelConfig::dropout,
          "Dropout inside the base model (attention_dropout, resid_pdrop, ... of config.json): none leaves it out, in every family. config is for "
          "models without any: forge computes none, and refuses a config.json that has some.")
          .role(KeyRole::identity),
      key("quantization", &ModelConfig::quantization,
          "Quantization of the frozen linear layers. The embedding and the LM head are not quantized. fp8 (E4M3 with a scale a row) is multiplied "
          "in 8 bits too, activations with it: on Hopper and data-centre Blackwell, or slowly on a CPU; see fp8_tolerance.")
          .role(KeyRole::identity),
      key("double_quantization", &ModelConfig::double_quantization,
          "Quantize the scales of nf4 and fp4 to 8 bits as well: 4.127 instead of 4.5 bits per weight.")
          .role(KeyRole::identity),
      key("fp8_tolerance", &ModelConfig::fp8_tolerance,
          "By what part of itself fp8 may change the base's loss. A run measures it before its first step, on the first 16,384 tokens of "
          "data.eval, or of data.train without it, and ends there unless the difference and two standard errors are less. In training it "
          "may become more.")
          .range(0, 1)
          .role(KeyRole::settings),
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
  std::vector<Field> eva{
      key("tau", &EvaConfig::tau,
          "Directions are settled when one micro-batch more turns each by no more than this cosine.")
          .range(0, 1),
      key("use_label_mask", &EvaConfig::use_label_mask, "Look at the tokens that are trained alone, not at prompts."),
      key("whiten", &EvaConfig::whiten, "Divide each direction by the root of its singular value."),
  };
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
      key("bias", &AdapterConfig::bias, "Which biases are trained: none, those of the adapted layers (lora_only), or the model's (all)."),
      key("use_rslora", &AdapterConfig::use_rslora,
          "Scale by alpha / sqrt(rank) instead of alpha / rank (rank-stabilized LoRA)."),
      key("use_dora", &AdapterConfig::use_dora,
          "Train a magnitude per output row in addition to the direction (DoRA)."),
      key("init", &AdapterConfig::init,
          "Initialization of the adapter: PEFT's default (A uniform, B zero), gaussian (A normal, B zero), "
          "the principal singular vectors of the weight (pissa), its QR decomposition (olora), what quantization lost of it (loftq), or the "
          "principal directions of what the layer reads of the training data (eva: A; B zero).")
          .later({"corda", "orthogonal"}),
      section("eva", &AdapterConfig::eva, "How init: eva looks at the training data.", std::move(eva)),
      key("lora_plus_ratio", &AdapterConfig::lora_plus_ratio,
          "Learning rate of B divided by that of A (LoRA+).")
          .above(0),
      key("rank_pattern", &AdapterConfig::rank_pattern,
          "Ranks for individual modules: module name suffix or regex to rank; of several that match, the first counts.")
          .range(1, 65536),
      key("alpha_pattern", &AdapterConfig::alpha_pattern,
          "Alphas for individual modules: module name suffix or regex to alpha; of several that match, the first counts.")
          .above(0),
      key("layers_to_transform", &AdapterConfig::layers_to_transform, "Indices of the layers to adapt.")
          .at_least(0)
          .when_unset("all layers"),
      key("init_from", &AdapterConfig::init_from, "A PEFT adapter folder to continue training from.").path(),
  };
}

}  // namespace forge
