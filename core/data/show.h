#pragma once
// Shows examples to people and to other programs: exactly what the model sees.
#include <cstdint>
#include <string>

#include "core/data/dataset.h"
#include "core/lib/base/file.h"
#include "core/lib/text/tokenizer.h"

namespace forge {

// Writes every example, in order, as a line of JSON: {"source", "line", "label", "text", "ids",
// "mask"}. `label` is DataSet::label, absent when there is none; `text` is the decoded ids with
// control tokens; `mask` has 1 for a trained token. Such a line is a row of format tokens.
void dump_dataset(const DataSet& data, const Tokenizer& tokenizer, OutputFile& out);

// Returns where an example comes from, what it is and how long: "train.jsonl:12 (chosen): 85
// tokens, 60 trained".
std::string title_of(const DataSet& data, int64_t index);
// Returns the title, and on the following lines the text. Trained text is green and the rest dim;
// without colour trained text is in ⟦ ⟧. Control characters other than newline and tab are shown as
// escapes, so that data cannot drive the terminal.
std::string show_example(const DataSet& data, int64_t index, const Tokenizer& tokenizer, bool colour);

}  // namespace forge
