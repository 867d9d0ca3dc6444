#include "core/lib/schema/json_schema.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "core/lib/base/key_error.h"
#include "core/lib/base/text.h"
#include "core/lib/schema/keywords.h"
#include "core/lib/schema/text_form.h"

namespace forge {
namespace {

constexpr int kDeepest = 200;              // schemas inside schemas, and references
constexpr int64_t kMostSteps = 1'000'000;  // of one value

constexpr const char* kTypes[] = {"null", "boolean", "object", "array", "number", "string", "integer"};

// A number in its decimal form: digits · 10^exponent, digits without a trailing zero.
struct Decimal {
  uint64_t digits = 0;
  int exponent = 0;
};

Decimal decimal_of(const Json& value) {
  std::array<char, 32> text{};
  const auto write = [&](auto number) {
    if constexpr (std::is_floating_point_v<decltype(number)>)
      return std::to_chars(text.begin(), text.end(), number, std::chars_format::scientific).ptr;
    else
      return std::to_chars(text.begin(), text.end(), number).ptr;
  };
  const char* end = value.is_number_float()      ? write(std::abs(value.get<double>()))
                    : value.is_number_unsigned() ? write(value.get<uint64_t>())
                                                 : write(value.get<int64_t>());
  Decimal decimal;
  bool behind_point = false;
  const char* at = text.begin() + (text[0] == '-');
  for (; at != end && *at != 'e'; ++at) {
    if (*at == '.') {
      behind_point = true;
      continue;
    }
    decimal.digits = 10 * decimal.digits + static_cast<uint64_t>(*at - '0');
    decimal.exponent -= behind_point;
  }
  if (at != end) decimal.exponent += std::atoi(at + 1);
  for (; decimal.digits != 0 && decimal.digits % 10 == 0; decimal.digits /= 10) ++decimal.exponent;
  return decimal;
}

// True if a number is a multiple of another, in decimals as they are written: 0.3 is a multiple of
// 0.1, and 1e308 is not one of 0.123456789.
bool is_multiple(const Json& value, const Json& of) {
  const Decimal number = decimal_of(value), step = decimal_of(of);
  if (number.digits == 0) return true;
  // A step with more places than the number's last digit would need a zero there.
  if (number.exponent < step.exponent) return false;
  unsigned __int128 rest = number.digits % step.digits;
  for (int i = step.exponent; i < number.exponent && rest != 0; ++i) rest = rest * 10 % step.digits;
  return rest == 0;
}

bool has_type(const Json& value, const std::string& type) {
  const std::string own = json_type(value);
  return own == type || (type == "number" && own == "integer");
}

// True if two values are equal by the rules of JSON Schema: 1 is 1.0, and the order of members does
// not count.
bool equal(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return a == b;
  if (a.type() != b.type() || a.size() != b.size()) return false;
  if (a.is_array()) return std::equal(a.begin(), a.end(), b.begin(), equal);
  if (!a.is_object()) return a == b;
  return std::all_of(a.items().begin(), a.items().end(), [&](const auto& item) {
    const auto found = b.find(item.key());
    return found != b.end() && equal(item.value(), *found);
  });
}

// Checks that a schema is one that JsonSchema reads, and collects its patterns.
class SchemaReader {
 public:
  SchemaReader(const Json& root, const std::string& key, std::map<std::string, TextPattern>& patterns)
      : root_(root), key_(key), patterns_(patterns) {}

  void read_all() {
    read(root_, "");
    // A reference may lead to a place that is not a schema by its position, such as an example.
    while (!referenced_.empty()) {
      const std::string target = referenced_.back();
      referenced_.pop_back();
      read(referenced(root_, target), target);
    }
  }

 private:
  void read(const Json& schema, const std::string& at, int depth = 0) {
    if (depth > kDeepest) refuse(at, "is nested too deeply");
    if (schema.is_boolean()) return;
    if (!schema.is_object()) refuse(at, "is " + json_type(schema) + ", expected a schema");
    for (const auto& item : schema.items()) {
      const std::string here = at + "/" + item.key();
      const Keyword* keyword = find_keyword(item.key());
      if (keyword == nullptr) unknown(item.key(), here);
      read_form(keyword->form, item.value(), here, depth);
    }
  }

  void read_form(KeywordForm form, const Json& value, const std::string& at, int depth) {
    switch (form) {
      case KeywordForm::describes:
      case KeywordForm::value:
        return;
      case KeywordForm::dialect:
        return dialect(value, at);
      case KeywordForm::types:
        return types(value, at);
      case KeywordForm::values:
        return expect(value.is_array() && !value.empty(), at, "a list of values");
      case KeywordForm::schema:
        return read(value, at, depth + 1);
      case KeywordForm::schemas:
        return list(value, at, depth);
      case KeywordForm::members:
        return members(value, at, depth);
      case KeywordForm::names:
        return expect(value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& v) { return v.is_string(); }), at, "a list of names");
      case KeywordForm::flag:
        return expect(value.is_boolean(), at, "true or false");
      case KeywordForm::pattern:
        return pattern(value, at);
      case KeywordForm::reference:
        return reference(value, at);
      case KeywordForm::number:
        return expect(value.is_number(), at, "a number");
      case KeywordForm::step:
        return expect(value.is_number() && value.get<double>() > 0, at, "a number above 0");
      case KeywordForm::count:
        return expect(value.is_number_unsigned() || (value.is_number_integer() && value.get<int64_t>() >= 0), at, "a count");
    }
  }

  // Refuses foreign vocabularies, which may give a keyword another meaning, or none.
  void dialect(const Json& value, const std::string& at) const {
    const std::string name = value.is_string() ? value.get<std::string>() : "";
    expect(name.find("://json-schema.org/") != name.npos, at, "a draft of json-schema.org");
  }

  [[noreturn]] void refuse(const std::string& at, const std::string& what,
                           const std::string& hint = "") const {
    throw KeyError(ErrorKind::job, key_, (at.empty() ? "the schema" : at) + " " + what, hint);
  }
  void expect(bool holds, const std::string& at, const std::string& what) const {
    if (!holds) refuse(at, "is not " + what);
  }
  void types(const Json& value, const std::string& at) const {
    const Json list = value.is_array() ? value : Json::array({value});
    expect(!list.empty(), at, "a type of JSON");
    for (const Json& type : list)
      expect(type.is_string() && std::find(std::begin(kTypes), std::end(kTypes), type.get<std::string>()) != std::end(kTypes), at, "a type of JSON");
  }
  void members(const Json& value, const std::string& at, int depth) {
    expect(value.is_object(), at, "an object of schemas");
    for (const auto& item : value.items()) read(item.value(), at + "/" + item.key(), depth + 1);
  }
  void list(const Json& value, const std::string& at, int depth) {
    expect(value.is_array() && !value.empty(), at, "a list of schemas");
    for (size_t i = 0; i < value.size(); ++i) read(value[i], at + "/" + std::to_string(i), depth + 1);
  }
  void pattern(const Json& value, const std::string& at) {
    expect(value.is_string(), at, "a text");
    patterns_.try_emplace(value.get<std::string>(), value.get<std::string>(), key_);
  }
  void reference(const Json& value, const std::string& at) {
    const std::string text = value.is_string() ? value.get<std::string>() : "";
    if (!starts_with(text, "#"))
      refuse(at, "is not in the same file", "only references like #/$defs/NAME are read");
    try {
      referenced(root_, text);
    } catch (const nlohmann::json::exception&) {
      refuse(at, "points to nothing: " + text);
    }
    if (seen_.insert(text).second) referenced_.push_back(text);
  }
  [[noreturn]] void unknown(const std::string& word, const std::string& at) const {
    const std::vector<std::string> known = limiting_keywords();
    refuse(at, "is not read by this version" + did_you_mean(word, known),
           word == "format" ? "say it with pattern" : "the keywords are " + join(known, ", "));
  }

  const Json& root_;
  const std::string& key_;
  std::map<std::string, TextPattern>& patterns_;
  std::set<std::string> seen_;           // references
  std::vector<std::string> referenced_;  // those whose schemas are still to be read
};

class Validator {
 public:
  Validator(const Json& root, const std::map<std::string, TextPattern>& patterns)
      : root_(root), patterns_(patterns) {}

  // Returns the first fault; empty if there is none.
  std::string check(const Json& schema, const Json& value, const std::string& at, int depth) {
    if (depth > kDeepest || ++steps_ > kMostSteps)
      throw PatternGaveUp("the JSON Schema needs too many steps on this value");
    if (schema.is_boolean()) return schema.get<bool>() ? "" : place(at) + "is not allowed";
    for (const auto& item : schema.items()) {
      std::string fault = keyword(item.key(), item.value(), schema, value, at, depth);
      if (!fault.empty()) return fault;
    }
    return "";
  }

 private:
  static std::string place(const std::string& at) { return at.empty() ? "it " : at + " "; }

  std::string keyword(const std::string& word, const Json& rule, const Json& schema, const Json& value,
                      const std::string& at, int depth) {
    if (word == "type") return type(rule, value, at);
    if (word == "enum")
      return std::any_of(rule.begin(), rule.end(), [&](const Json& one) { return equal(one, value); })
                 ? ""
                 : place(at) + "is none of the listed values";
    if (word == "const") return equal(rule, value) ? "" : place(at) + "is not " + dump_json(rule);
    if (word == "$ref")
      return check(referenced(root_, rule), value, at, depth + 1);
    if (word == "not")
      return check(rule, value, at, depth + 1).empty() ? place(at) + "matches what `not` forbids" : "";
    if (word == "anyOf" || word == "oneOf" || word == "allOf") return combined(word, rule, value, at, depth);
    if (value.is_object()) return of_object(word, rule, schema, value, at, depth);
    if (value.is_array()) return of_array(word, rule, schema, value, at, depth);
    if (value.is_string()) return of_text(word, rule, value.get_ref<const std::string&>(), at);
    if (value.is_number()) return of_number(word, rule, value, at);
    return "";
  }

  static std::string type(const Json& rule, const Json& value, const std::string& at) {
    const std::vector<std::string> names = named_types(rule);
    if (std::ranges::any_of(names, [&](const std::string& name) { return has_type(value, name); })) return "";
    return place(at) + "is " + json_type(value) + ", expected " + join(names, " or ");
  }

  std::string combined(const std::string& word, const Json& rules, const Json& value, const std::string& at,
                       int depth) {
    size_t valid = 0;
    std::string first;
    for (const Json& rule : rules) {
      std::string fault = check(rule, value, at, depth + 1);
      valid += fault.empty();
      if (first.empty()) first = std::move(fault);
    }
    if (word == "allOf") return first;
    if (word == "anyOf" && valid > 0) return "";
    if (word == "oneOf" && valid == 1) return "";
    return valid > 1 ? place(at) + "fits several alternatives" : place(at) + "fits no alternative";
  }

  std::string of_object(const std::string& word, const Json& rule, const Json& schema, const Json& value,
                        const std::string& at, int depth) {
    if (word == "required") {
      for (const Json& name : rule)
        if (!value.contains(name.get<std::string>())) return place(at) + "has no " + name.get<std::string>();
    } else if (word == "properties") {
      for (const auto& item : rule.items())
        if (const auto member = value.find(item.key()); member != value.end())
          if (std::string fault = check(item.value(), *member, at + "/" + item.key(), depth + 1);
              !fault.empty())
            return fault;
    } else if (word == "additionalProperties") {
      const auto known = schema.find("properties");
      for (const auto& item : value.items())
        if (known == schema.end() || !known->contains(item.key()))
          if (!check(rule, item.value(), at + "/" + item.key(), depth + 1).empty())
            return at + "/" + item.key() + " is not one of the properties";
    } else if (word == "minProperties" || word == "maxProperties") {
      return count(word, rule, value.size(), at, "members");
    }
    return "";
  }

  std::string of_array(const std::string& word, const Json& rule, const Json& schema, const Json& value,
                       const std::string& at, int depth) {
    if (word == "items" || word == "prefixItems") {
      const auto prefix = schema.find("prefixItems");
      const size_t first = word == "items" && prefix != schema.end() ? prefix->size() : 0;
      const size_t end = word == "items" ? value.size() : std::min(rule.size(), value.size());
      for (size_t i = first; i < end; ++i)
        if (std::string fault =
                check(word == "items" ? rule : rule[i], value[i], at + "/" + std::to_string(i), depth + 1);
            !fault.empty())
          return fault;
    } else if (word == "uniqueItems" && rule.get<bool>()) {
      for (size_t i = 0; i < value.size(); ++i)
        for (size_t k = 0; k < i; ++k) {
          if (++steps_ > kMostSteps)
            throw PatternGaveUp("the JSON Schema needs too many steps on this value");
          if (equal(value[i], value[k])) return place(at) + "has an item twice";
        }
    } else if (word == "minItems" || word == "maxItems") {
      return count(word, rule, value.size(), at, "items");
    }
    return "";
  }

  std::string of_text(const std::string& word, const Json& rule, const std::string& value,
                      const std::string& at) const {
    if (word == "minLength" || word == "maxLength")
      return count(word, rule, static_cast<size_t>(count_characters(value)), at, "characters");
    if (word == "pattern" && !patterns_.at(rule.get<std::string>()).search(value))
      return place(at) + "does not match " + rule.get<std::string>();
    return "";
  }

  static std::string of_number(const std::string& word, const Json& rule, const Json& value,
                               const std::string& at) {
    const auto bound = [&](bool holds, const char* what) {
      return holds ? "" : place(at) + "is " + dump_json(value) + ", expected " + what + " " + dump_json(rule);
    };
    if (word == "minimum") return bound(value >= rule, "at least");
    if (word == "maximum") return bound(value <= rule, "at most");
    if (word == "exclusiveMinimum") return bound(value > rule, "more than");
    if (word == "exclusiveMaximum") return bound(value < rule, "less than");
    if (word == "multipleOf") return bound(is_multiple(value, rule), "a multiple of");
    return "";
  }

  static std::string count(const std::string& word, const Json& rule, size_t count, const std::string& at,
                           const char* what) {
    const auto limit = rule.get<uint64_t>();
    if (starts_with(word, "min") ? count >= limit : count <= limit) return "";
    return place(at) + "has " + std::to_string(count) + " " + what + ", expected at " +
           (starts_with(word, "min") ? "least " : "most ") + std::to_string(limit);
  }

  const Json& root_;
  const std::map<std::string, TextPattern>& patterns_;
  int64_t steps_ = 0;
};

}  // namespace

std::string json_type(const Json& value) {
  if (value.is_number_float() && value.get<double>() == std::floor(value.get<double>())) return "integer";
  if (value.is_number_integer()) return "integer";
  if (value.is_number()) return "number";
  return value.is_null()      ? "null"
         : value.is_boolean() ? "boolean"
         : value.is_string()  ? "string"
         : value.is_array()   ? "array"
                              : "object";
}

std::vector<std::string> named_types(const Json& type) {
  return type.is_array() ? type.get<std::vector<std::string>>() : std::vector{type.get<std::string>()};
}

const Json& referenced(const Json& root, const Json& reference) {
  return root.at(Json::json_pointer(reference.get<std::string>().substr(1)));
}

JsonSchema::JsonSchema(Json schema, const std::string& key) : root_(std::move(schema)) {
  SchemaReader(root_, key, patterns_).read_all();
}

std::string JsonSchema::problem(const Json& value, const Json& schema) const {
  return Validator(root_, patterns_).check(schema, value, "", 0);
}

}  // namespace forge
