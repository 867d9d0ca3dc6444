#pragma once
// Calls all functions of a tokenizer on a text of many scripts.
#include "core/lib/text/tokenizer.h"

namespace forge {

// Aborts when the two ways of encoding differ or a span lies outside the text.
void exercise(const Tokenizer& tokenizer);

}  // namespace forge
