#pragma once
// Keys and values of other tools in forge's terms: the table core/config/foreign/keys.txt, which says how a row
// is written and is compiled into the program.
//
//   foreign_hint(*find_foreign_row({"lora_r"}), {.name = "lora_r", .value = &node})
//   // "lora_r is adapter.rank here"
#include <string>
#include <vector>

#include "core/config/node.h"

namespace forge {

// "VALUES -> TEXT": what to say when the other tool's value is one of `values` (* stands for any text).
struct ValueRule {
  std::vector<std::string> values;
  std::string text;       // what to write; empty: leave the key out
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
  std::string note;  // said with every value; may be empty
};

// In the order of the file.
const std::vector<ForeignRow>& foreign_rows();
// What the table says of values of forge's `key` ("optimizer.type", "data.train[0].format").
const std::vector<ValueRule>& foreign_value_rules(const std::string& key);

// The row of a key that may be looked up under several names, most specific first. Patterns with * come after
// all names when `patterns`, else they are left out. nullptr: no tool is known to have it.
const ForeignRow* find_foreign_row(const std::vector<std::string>& names, bool patterns = false);
// Whether a row is about keys below this section ("tokenizer.max_seq_len").
bool has_foreign_rows_below(const std::string& section);
// The key of another tool with a counterpart here that `word` probably is a misspelling of; empty when there is none.
std::string misspelt_foreign_key(const std::string& word);

// What to write for a value of another tool in forge's `key`: "write cosine"; empty when unknown.
std::string foreign_value_hint(const std::string& key, const std::string& value);

// How to adapt another tool's value to forge's `key`: what to write, how to download a name of the hub, or
// why it does not fit. Empty if it can stay as it is.
std::string carried_value_hint(const std::string& key, const Node& value);

// "a name of the hub is downloaded first: …" where `written`, the value of forge's `key`, looks like one; else empty.
std::string hub_hint(const std::string& key, const std::string& written);

// The hint for a key of another tool with this value.
std::string foreign_hint(const ForeignRow& row, const std::string& name, const Node& value);

}  // namespace forge
