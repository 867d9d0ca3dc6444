#pragma once
// Adds texts as tokens to a vocabulary, after all tokens that it has. A text that is already a
// token stays as it is. The tokens are found in any text, before it is split into words. They are
// not special: decoding keeps them.
#include <string>
#include <vector>

#include "core/lib/text/gguf_vocabulary.h"
#include "core/lib/text/tokenizer.h"

namespace forge {

// Returns tokenizer.json with `tokens` among added_tokens, after those of the files beside it.
std::string with_added_tokens(const TokenizerJson& source, const std::vector<std::string>& tokens);

// Adds `tokens` to a GGUF's vocabulary as user-defined tokens. Throws Error(job) for a vocabulary
// whose kind has no such tokens in the files that Hugging Face tools read (SentencePiece).
void add_tokens(GgufVocabulary& vocabulary, const std::vector<std::string>& tokens);

// Returns open_tokenizer() with `tokens` added. Throws Error(job) for a folder without
// tokenizer.json.
Tokenizer open_tokenizer_with(const std::string& model_dir, const std::vector<std::string>& tokens);

}  // namespace forge
