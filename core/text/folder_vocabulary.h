#pragma once
// The vocabulary of a Hugging Face folder as a GGUF says it: gguf_tokenizer_json.h the other way.
#include <string>

#include "core/text/gguf_vocabulary.h"
#include "core/text/tokenizer.h"

namespace forge {

// Byte-level BPE of tokenizer.json becomes "gpt2" with the pre-tokenizer that splits like it; SentencePiece BPE, from
// tokenizer.model or a tokenizer.json with byte fallback, becomes "llama". Texts are encoded both ways, and a vocabulary that
// would give other ids is refused: Error(environment), as is one that GGUF has no words for. `tokenizer` is the folder's;
// `size` is the number of rows of the embedding, up to which unused tokens fill the list.
GgufVocabulary vocabulary_of_folder(const std::string& folder, const Tokenizer& tokenizer, int64_t size);

}  // namespace forge
