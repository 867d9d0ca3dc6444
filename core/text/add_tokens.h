#pragma once
// Texts that become tokens of a vocabulary, behind all that it has. One that it has already stays as it is. They are found in any
// text, before it is split into words, and are not special: decoding keeps them.
#include <string>
#include <vector>

#include "core/text/gguf_vocabulary.h"
#include "core/text/tokenizer.h"

namespace forge {

// tokenizer.json with them among added_tokens, after those of the files beside it.
std::string with_added_tokens(const TokenizerJson& source, const std::vector<std::string>& tokens);

// A GGUF's vocabulary with them as user-defined tokens. Throws Error(job) for one whose kind has no such tokens in the files that
// Hugging Face tools read (SentencePiece).
void add_tokens(GgufVocabulary& vocabulary, const std::vector<std::string>& tokens);

// open_tokenizer() with them. Throws Error(job) for a folder without tokenizer.json.
Tokenizer open_tokenizer_with(const std::string& model_dir, const std::vector<std::string>& tokens);

}  // namespace forge
