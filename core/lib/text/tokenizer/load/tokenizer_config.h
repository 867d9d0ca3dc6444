#pragma once
// Tokens that tokenizer_config.json, special_tokens_map.json and added_tokens.json state beside a
// tokenizer.model, which knows pieces and little else.
#include "core/lib/text/tokenizer/load/late_tokens.h"
#include "core/lib/text/tokenizer/load/parts.h"

namespace forge::text {

// Texts that LlamaTokenizer puts a space before, in place of the model file's own rule.
enum class PrefixRule { of_model, at_start, none };

class TokenizerConfig {
 public:
  // `model_path` names the file beside the configuration. An empty text is an absent file.
  TokenizerConfig(const std::string& model_path, const std::string& text);

  // Adds the tokens that the files name (late_tokens.h). Returns false if there are none.
  bool add_tokens(TokenizerParts& parts) const;
  // Returns the rule of `legacy` and `add_prefix_space`, which only LlamaTokenizer reads. legacy:
  // false leaves texts after an added token alone. If a key is absent or legacy is true, the model
  // file decides.
  PrefixRule prefix_rule() const;
  // Sets the ids of bos_token, eos_token, pad_token, the template by add_bos_token and
  // add_eos_token, and the hash of the model file's content and of every file that was read beside
  // it. It must be called last.
  void finish(TokenizerParts& parts, std::string_view model) const;

 private:
  std::string name_, model_path_;
  std::string text_, special_tokens_map_, added_tokens_;  // the files' contents
  TokenFiles files_;
};

}  // namespace forge::text
