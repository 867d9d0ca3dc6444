#pragma once
// The keywords of JSON Schema that forge reads, as one table: what each holds, and values of which
// type it limits. The reader of schemas, the check of values and the grammar of answers ask it.
#include <string>
#include <string_view>
#include <vector>

namespace forge {

// The kinds of values that keywords have.
enum class KeywordForm {
  describes,  // anything: it limits nothing
  dialect,    // $schema
  types,      // a type or a list of types
  values,     // a list of values
  value,      // any value
  schema,
  schemas,  // a list of schemas
  members,  // names and their schemas
  names,    // a list of names
  flag,
  pattern,
  reference,
  number,
  step,   // a number above 0
  count,  // a whole number from 0
};

// The type whose values a keyword limits; other values it lets pass.
enum class KeywordScope { any, object, array, text, number };

struct Keyword {
  std::string_view name;
  KeywordForm form;
  KeywordScope scope = KeywordScope::any;
};

// Returns the keyword; null for one that is not read.
const Keyword* find_keyword(std::string_view name);
// True for keywords that limit nothing, among them $defs.
bool only_describes(std::string_view name);
// Returns the names of those that limit something, for messages.
std::vector<std::string> limiting_keywords();

}  // namespace forge
