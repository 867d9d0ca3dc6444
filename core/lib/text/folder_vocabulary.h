#pragma once
// Converts the vocabulary of a Hugging Face folder to a GGUF's: the inverse of
// gguf_tokenizer_json.h.
//
// A pre-tokenizer is found by its patterns and proved on texts. llama.cpp's converter knows
// tokenizers by a hash of one such text, so it ends at those that it has met.
#include <string>

#include "core/lib/text/gguf_vocabulary.h"
#include "core/lib/text/tokenizer.h"

namespace forge {

// Returns the folder's vocabulary. Byte-level BPE of tokenizer.json becomes "gpt2" with the
// pre-tokenizer that splits like it. SentencePiece BPE, from tokenizer.model or a tokenizer.json
// with byte fallback, becomes "llama". Texts are encoded both ways. Throws Error(environment) for a
// vocabulary that would give other ids, and for one that GGUF cannot express. `tokenizer` is the
// folder's. `size` is the number of rows of the embedding, which the list does not exceed.
GgufVocabulary vocabulary_of_folder(const std::string& folder, const Tokenizer& tokenizer, int64_t size);

// Adds unused tokens up to `size`: llama.cpp requires a token for every row of the embedding.
void add_unused_tokens(GgufVocabulary& vocabulary, int64_t size);

}  // namespace forge
