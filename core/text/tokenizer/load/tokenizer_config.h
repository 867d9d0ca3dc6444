#pragma once
// What tokenizer_config.json says beside a tokenizer.model, which knows pieces and little else.
#include "core/text/tokenizer/load/parts.h"

namespace forge::text {

class TokenizerConfig {
 public:
  // `model_path` names the file that the configuration stands beside; an empty text is an absent file.
  TokenizerConfig(const std::string& model_path, const std::string& text);

  // {"added_tokens_decoder": {"32000": {"content": "<|im_start|>", "special": true, …}}}. False when there
  // are none.
  bool add_tokens(TokenizerParts& parts) const;
  // bos_token, eos_token, pad_token.
  void name_ids(TokenizerParts& parts) const;
  // add_bos_token and add_eos_token.
  void add_template(TokenizerParts& parts, bool add_bos) const;

 private:
  std::string name_;
  Json json_;
};

}  // namespace forge::text
