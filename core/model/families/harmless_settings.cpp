#include <set>

#include "core/lib/base/text.h"
#include "core/model/families/config_spec.h"

namespace forge {
namespace {

// Keys of transformers' PreTrainedConfig and of tools that write into config.json.
const std::set<std::string>& harmless_settings() {
  static const std::set<std::string> keys{
      // provenance and storage
      "architectures", "model_type", "torch_dtype", "dtype", "transformers_version", "name_or_path",
      "auto_map", "is_llama_config", "unsloth_fixed", "unsloth_version", "model_name", "license",
      "trust_remote_code", "transformers.js_config", "finetuning_task", "torchscript", "use_bfloat16",
      "tf_legacy_loss", "max_sequence_length",
      // initialisation, caching, outputs, distribution: nothing a loaded decoder computes in
      // training
      "use_cache", "output_attentions", "output_hidden_states", "return_dict",
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

}  // namespace

bool harmless_setting(const std::string& key) {
  return starts_with(key, "_") || harmless_settings().count(key) > 0;
}

}  // namespace forge
