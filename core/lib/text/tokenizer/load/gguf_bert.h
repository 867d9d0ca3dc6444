#pragma once
// Loads BERT's WordPiece from a GGUF.
#include "core/lib/text/tokenizer/load/parts.h"

namespace forge::text {

// Fills normalizer, pre-tokenizer, model and decoder from a GGUF vocabulary of model "bert".
void load_bert(const GgufVocabulary& source, TokenizerParts& parts);

}  // namespace forge::text
