#pragma once
// Keys and values of other tools in forge's terms, from the table core/job/foreign/keys.txt.
// That file describes the form of a row and is compiled into the program.
//
//   foreign_hint(*find_foreign_row({"lora_r"}), {.name = "lora_r", .value = &node})
//   // "lora_r is adapter.rank here"
#include <string>
#include <vector>

#include "core/job/node.h"

namespace forge {

// "VALUES -> TEXT": the advice for another tool's value that is one of `values` (* stands for any
// text).
struct ValueRule {
  std::vector<std::string> values;
  std::string text;       // text to write; empty: leave the key out
  bool sentence = false;  // say `text` verbatim
};

struct ForeignRow {
  enum class Kind { counterpart, needless, later };
  std::vector<std::string> keys;
  Kind kind = Kind::counterpart;
  std::string key;         // forge's, [] where it is one of a list; empty without a counterpart
  bool same_value = true;  // the value means the same there and here
  bool short_form = true;  // a value alone is the section's short form
  std::vector<ValueRule> rules;
  std::string note;  // added for every value; may be empty
};

// Returns all rows in the order of the file.
const std::vector<ForeignRow>& foreign_rows();
// Returns the table's rules for values of forge's `key` ("optimizer.type", "data.train[0].format").
const std::vector<ValueRule>& foreign_value_rules(const std::string& key);

// Returns the row of a key that may be looked up under several names, most specific first. Patterns
// with * come after all names if `patterns` is true; otherwise they are left out. nullptr: no known
// tool has the key.
const ForeignRow* find_foreign_row(const std::vector<std::string>& names, bool patterns = false);
// True if a row is about keys below this section ("tokenizer.max_seq_len").
bool has_foreign_rows_below(const std::string& section);
// Returns another tool's key, with a counterpart here, that `word` probably misspells; empty if
// there is none.
std::string misspelt_foreign_key(const std::string& word);

// Returns the advice for a value of another tool in forge's `key`: "write cosine"; empty if
// unknown.
std::string foreign_value_hint(const std::string& key, const std::string& value);

// Returns the advice for carrying another tool's value to forge's `key`: the value to write, the
// download of a name of the hub, or the reason why it does not fit. Returns an empty text if it can
// stay as it is.
std::string carried_value_hint(const std::string& key, const Node& value);

// Returns "a name of the hub is …" if `written`, the value of forge's `key`, looks like one; else
// an empty text.
std::string hub_hint(const std::string& key, const std::string& written);

// Returns the hint for a key of another tool with this value.
std::string foreign_hint(const ForeignRow& row, const std::string& name, const Node& value);

}  // namespace forge
