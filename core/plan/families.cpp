#include "core/plan/families.h"

#include <set>

#include "core/base/text.h"
#include "core/io/architectures.h"

namespace forge {
namespace {

void read_llama(Settings& settings, ModelSpec& spec) {
  spec.qkv_bias = spec.o_bias = settings.flag("attention_bias", false);
  spec.mlp_bias = settings.flag("mlp_bias", false);
  // More than 1 splits the linears into slices that are summed in another order.
  const Json* slices = settings.find("pretraining_tp");
  if (slices && !(slices->is_number_integer() && slices->get<int64_t>() <= 1))
    settings.unsupported("pretraining_tp",
                         "is " + dump_json(*slices) + ", forge computes only 1 (unsliced linears)");
  settings.must_be("rope_interleaved", false, "rotary pairs are the two halves of a head");
}

// In tokens; 0 for null, which means none.
int64_t window_of(Settings& settings) {
  constexpr int64_t kAbsent = 4096;  // what transformers assumes when the key is missing
  if (!settings.find("sliding_window")) return settings.has("sliding_window") ? 0 : kAbsent;
  return settings.integer("sliding_window", 0, int64_t{1} << 40);
}

void read_mistral(Settings& settings, ModelSpec& spec) { spec.sliding_window = window_of(settings); }

// Qwen's windows begin at a layer, and only where they are asked for.
void read_windows_of_some_layers(Settings& settings, ModelSpec& spec) {
  const int64_t window = window_of(settings), first = settings.integer("max_window_layers", 0, 1 << 20, 28);
  const bool some_layer = settings.has("layer_types") || first < spec.num_layers;
  if (settings.flag("use_sliding_window", false) && some_layer) spec.sliding_window = window;
}

void read_qwen2(Settings& settings, ModelSpec& spec) {
  spec.qkv_bias = true;
  read_windows_of_some_layers(settings, spec);
}

void read_qwen3(Settings& settings, ModelSpec& spec) {
  spec.qkv_bias = spec.o_bias = settings.flag("attention_bias", false);
  spec.qk_norm = true;
  if (!settings.has("head_dim")) spec.head_dim = 128;
  read_windows_of_some_layers(settings, spec);
}

void read_phi3(Settings& settings, ModelSpec& spec) {
  for (const char* key : {"embd_pdrop", "resid_pdrop"}) settings.must_be(key, 0.0, "no dropout inside the base model");
  settings.find("original_max_position_embeddings");  // what long scaling reads, which is refused where it is asked for
  if (settings.has("sliding_window")) spec.sliding_window = window_of(settings);
}

// Keys of transformers' PreTrainedConfig and of tools that write into config.json.
const std::set<std::string>& harmless_settings() {
  static const std::set<std::string> keys{
      // provenance and storage
      "architectures", "model_type", "torch_dtype", "dtype", "transformers_version", "name_or_path",
      "auto_map", "is_llama_config", "unsloth_fixed", "unsloth_version", "model_name", "license",
      "trust_remote_code", "transformers.js_config", "finetuning_task", "torchscript", "use_bfloat16",
      "tf_legacy_loss", "max_sequence_length",
      // initialisation, caching, outputs, distribution: nothing a loaded decoder computes in training
      "initializer_range", "use_cache", "output_attentions", "output_hidden_states", "return_dict",
      "return_dict_in_generate", "output_scores", "use_return_dict", "base_model_tp_plan",
      "base_model_pp_plan", "attn_implementation", "keys_to_ignore_at_inference", "tokenizer_class", "prefix",
      "problem_type", "id2label", "label2id", "num_labels", "task_specific_params", "gradient_checkpointing",
      "cache_implementation",
      // generation, which forge takes from the command line
      "max_length", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups",
      "diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty",
      "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids",
      "num_return_sequences", "remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens",
      "begin_suppress_tokens", "forced_bos_token_id", "forced_eos_token_id", "sep_token_id",
      "decoder_start_token_id", "max_new_tokens", "unk_token_id", "chat_template"};
  return keys;
}

[[noreturn]] void unknown_architecture(const std::string& architecture, const std::string& where,
                                       const std::vector<std::string>& known) {
  const std::string what = architecture.empty()
                               ? "no architecture is named"
                               : "the architecture " + architecture + architecture_refusal(architecture, known);
  throw Error(ErrorKind::job, where + ": " + what + "; forge knows " + join(known, ", "))
      .hint("take a model of one of these architectures");
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> table{
      // name, config.json, GGUF, positions, kv heads, own settings
      {"llama", "LlamaForCausalLM", "llama", 2048, 0, read_llama},
      {"mistral", "MistralForCausalLM", "", 131072, 8, read_mistral},
      {"qwen2", "Qwen2ForCausalLM", "qwen2", 32768, 32, read_qwen2},
      {"qwen3", "Qwen3ForCausalLM", "qwen3", 32768, 32, read_qwen3},
      {"phi3", "Phi3ForCausalLM", "phi3", 4096, 0, read_phi3},
  };
  return table;
}

const Family& family_of_architecture(const std::string& architecture, const std::string& where) {
  std::vector<std::string> known;
  for (const Family& family : families()) {
    if (family.architecture == architecture) return family;
    known.push_back(family.architecture);
  }
  unknown_architecture(architecture, where, known);
}

const Family& family_of_gguf(const std::string& architecture, const std::string& where) {
  std::vector<std::string> known;
  for (const Family& family : families()) {
    if (family.gguf_architecture.empty()) continue;
    if (family.gguf_architecture == architecture) return family;
    known.push_back(family.gguf_architecture);
  }
  unknown_architecture(architecture, where, known);
}

bool harmless_setting(const std::string& key) {
  return starts_with(key, "_") || harmless_settings().count(key) > 0;
}

}  // namespace forge
