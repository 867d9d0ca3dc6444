#pragma once
// Loads tiktoken's files under the name tokenizer.model, as in Llama 3's original release:
// "base64 rank" a line. This is byte-level BPE without a list of merges: any two neighbours that
// together are a token may merge, the lowest rank first. The file holds neither the pattern that
// cuts words nor the control tokens. The pattern is Llama 3's, as transformers assumes. The control
// tokens are those of tokenizer_config.json, without which the file is refused.
#include <string>
#include <string_view>

#include "core/lib/text/tokenizer.h"

namespace forge::text {

bool looks_like_tiktoken(std::string_view content);
// Throws Error(environment) as "path:line: what".
Tokenizer load_tiktoken(const std::string& path, std::string_view content, const std::string& config);

}  // namespace forge::text
