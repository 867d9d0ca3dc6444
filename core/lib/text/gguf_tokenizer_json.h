#pragma once
// Writes a GGUF's vocabulary as the files that Hugging Face tools read, so that an adapter trained
// on a GGUF can be used with them.
#include <string>

#include "core/lib/io/json.h"
#include "core/lib/text/gguf_vocabulary.h"

namespace forge {

// Returns the tokenizer.json of a byte-level BPE vocabulary (tokenizer.ggml.model "gpt2"): loading
// it gives the same ids as the GGUF. Empty for SentencePiece vocabularies, whose merges a GGUF does
// not hold.
std::string gguf_tokenizer_json(const GgufVocabulary& vocabulary);

// Returns tokenizer_config.json with the special tokens and the chat template, in the form of that
// file; null: none.
std::string gguf_tokenizer_config_json(const GgufVocabulary& vocabulary, const Json& chat_template);

}  // namespace forge
