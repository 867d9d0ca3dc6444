#pragma once
// Reads fields of a tokenizer.json and checks their kind. `where` is the place for messages, e.g.
// "model/tokenizer.json: normalizer.normalizers[2]".

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/lib/base/format.h"
#include "core/lib/base/text.h"
#include "core/lib/io/json.h"

namespace forge::text {

// Returns the fault of a tokenizer's file, Error(environment) "where: what".
template <class... Parts>
Error file_fault(const std::string& where, fmt::format_string<Parts...> what, Parts&&... parts) {
  return Error(ErrorKind::environment,
               where + ": " + fmt::format(what, std::forward<Parts>(parts)...));
}

const Json& member(const Json& object, const char* key, const std::string& where);  // must be there
const Json* find_member(const Json& object, const char* key);  // nullptr if absent or null
std::string string_member(const Json& object, const char* key, const std::string& where);
std::string string_member(const Json& object, const char* key, const std::string& where,
                          const std::string& absent);
bool bool_member(const Json& object, const char* key, const std::string& where, bool absent);
int64_t int_member(const Json& object, const char* key, const std::string& where, int64_t absent);
const Json& array_member(const Json& object, const char* key, const std::string& where);
// Returns the one character that the string holds.
uint32_t character_member(const Json& object, const char* key, const std::string& where);
// The field {"String": "x"} or {"Regex": "x"}.
struct PatternField {
  std::string text;
  bool is_regex;
};
PatternField pattern_member(const Json& object, const std::string& where);

// Returns the function that makes a part of that type. Throws Error(environment) that names the
// known types; `part` is what they are: "decoder".
template <class Make, size_t count>
Make maker_of(const std::pair<const char*, Make> (&makers)[count], const std::string& type,
              const char* part, const std::string& where) {
  std::vector<std::string> names;
  for (const auto& [name, make] : makers) {
    if (type == name) return make;
    names.push_back(name);
  }
  throw file_fault(where, "forge has no {} \"{}\"{}", part, type, did_you_mean(type, names))
      .hint("known: " + join(names, ", "));
}

}  // namespace forge::text
