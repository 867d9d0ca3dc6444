#include "core/lib/text/tokenizer/load/json_fields.h"

#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
namespace {

[[noreturn]] void wrong(const char* key, const std::string& where, const std::string& expected) {
  throw file_fault(where, "{}: expected {}", key, expected);
}

}  // namespace

const Json* find_member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const Json& member(const Json& object, const char* key, const std::string& where) {
  const Json* found = find_member(object, key);
  if (found == nullptr) wrong(key, where, "a value, but the key is missing");
  return *found;
}

std::string string_member(const Json& object, const char* key, const std::string& where) {
  const Json& value = member(object, key, where);
  if (!value.is_string()) wrong(key, where, "a string");
  return value.get<std::string>();
}

std::string string_member(const Json& object, const char* key, const std::string& where,
                          const std::string& absent) {
  return find_member(object, key) == nullptr ? absent : string_member(object, key, where);
}

bool bool_member(const Json& object, const char* key, const std::string& where, bool absent) {
  const Json* value = find_member(object, key);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) wrong(key, where, "true or false");
  return value->get<bool>();
}

int64_t int_member(const Json& object, const char* key, const std::string& where, int64_t absent) {
  const Json* value = find_member(object, key);
  if (value == nullptr) return absent;
  const bool fits =
      value->is_number_integer() && (!value->is_number_unsigned() || value->get<uint64_t>() < (1ull << 63));
  if (!fits) wrong(key, where, "an integer");
  return value->get<int64_t>();
}

const Json& array_member(const Json& object, const char* key, const std::string& where) {
  const Json& value = member(object, key, where);
  if (!value.is_array()) wrong(key, where, "a list");
  return value;
}

uint32_t character_member(const Json& object, const char* key, const std::string& where) {
  const std::string text = string_member(object, key, where);
  size_t at = 0;
  const uint32_t code = text.empty() ? 0 : next_char(text, at);
  if (text.empty() || at != text.size()) wrong(key, where, "one character");
  return code;
}

PatternField pattern_member(const Json& object, const std::string& where) {
  const Json& pattern = member(object, "pattern", where);
  for (const bool is_regex : {false, true}) {
    const char* key = is_regex ? "Regex" : "String";
    if (find_member(pattern, key) != nullptr)
      return {string_member(pattern, key, where + ".pattern"), is_regex};
  }
  wrong("pattern", where, "{\"String\": …} or {\"Regex\": …}");
}

}  // namespace forge::text
