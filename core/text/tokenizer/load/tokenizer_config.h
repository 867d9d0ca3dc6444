#pragma once
// Tokens that tokenizer_config.json, special_tokens_map.json and added_tokens.json say beside a tokenizer.model, which knows
// pieces and little else.
#include "core/text/tokenizer/load/late_tokens.h"
#include "core/text/tokenizer/load/parts.h"

namespace forge::text {

class TokenizerConfig {
 public:
  // `model_path` names the file that the configuration stands beside; an empty text is an absent file.
  TokenizerConfig(const std::string& model_path, const std::string& text);

  // The tokens that the files name (late_tokens.h). False when there are none.
  bool add_tokens(TokenizerParts& parts) const;
  // bos_token, eos_token, pad_token.
  void name_ids(TokenizerParts& parts) const;
  // add_bos_token and add_eos_token.
  void add_template(TokenizerParts& parts, bool add_bos) const;

 private:
  std::string name_, model_path_;
  TokenFiles files_;
};

}  // namespace forge::text
