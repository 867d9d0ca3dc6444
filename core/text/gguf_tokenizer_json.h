#pragma once
// A GGUF's vocabulary as the files that Hugging Face tools read, so that an adapter trained on a GGUF can be used
// with them.
#include <string>

#include "core/io/json.h"
#include "core/text/gguf_vocabulary.h"

namespace forge {

// tokenizer.json of a byte-level BPE vocabulary (tokenizer.ggml.model "gpt2"): loading it gives the same ids as the
// GGUF. Empty for SentencePiece vocabularies, whose merges a GGUF does not hold.
std::string gguf_tokenizer_json(const GgufVocabulary& vocabulary);

// tokenizer_config.json with the special tokens and the chat template, as that file writes it; null: none.
std::string gguf_tokenizer_config_json(const GgufVocabulary& vocabulary, const Json& chat_template);

}  // namespace forge
