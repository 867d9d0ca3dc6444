#pragma once
// Makes room for model.add_tokens.
//
// Added tokens are trained as rows (PEFT's trainable_token_indices): the adapter's file has their
// values, not a difference, so that they do not depend on the start values of a reader's resized
// vocabulary.
#include "core/job/load.h"
#include "core/lib/text/tokenizer.h"
#include "core/model/families/model_spec.h"

namespace forge {

// Gives the spec rows for the tokens that `with` has and `base` has not, with their initial values
// (model.add_tokens_from). An adapter trains these rows (adapter.trainable_token_indices), unless
// it trains the whole matrix. Throws Error(job) for a token that `base` has already, and for texts
// that belong to no added token or have no tokens.
void add_tokens(LoadedJob& loaded, const Tokenizer& base, const Tokenizer& with, ModelSpec& spec);

}  // namespace forge
