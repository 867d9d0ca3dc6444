#pragma once
// SentencePiece's kind of BPE has no list of merges: any two neighbours that make a piece may
// merge, the best score first.
#include "core/lib/text/tokenizer/load/parts.h"

namespace forge::text {

// Fills normalizer, model and decoder from a GGUF vocabulary of model "llama".
void load_llama(const GgufVocabulary& source, TokenizerParts& parts);

}  // namespace forge::text
