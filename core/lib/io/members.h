#pragma once
// Writes a struct to JSON, reads it back exactly and makes its schema, from one list of its
// members.
//
//   constexpr auto kPointMembers = [](auto& point, auto&& member) {
//     member("step", point.step, "optimizer steps done before the evaluation");
//     member("loss", point.loss, "mean over its supervised tokens");
//   };
//   void to_json(Json& json, const EvalPoint& point) { json = write_members(point, kPointMembers); }
//   void from_json(const Json& json, EvalPoint& point) { read_members(json, point, kPointMembers); }
//   Json schema_of(const EvalPoint& point) { return members_schema(point, kPointMembers); }
//
// Members are numbers, texts, flags, lists and maps of them, and what has these three functions
// itself; member.group(name, meaning, members) is an object around some of them; member.later(…) is
// one that files of older versions lack, and member.rare(…) one that is only written where it is
// not zero or empty. A number may have a range: member("step", point.step, "…",
// at_least(0)).
//
// The files read were written by forge, but may be damaged or edited since. Reading throws
// MemberFault for a member that is missing, of another type or out of its range, with the way to it
// ("memory.lines[2].bytes"): the caller knows the file.
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"
#include "core/lib/io/json.h"

namespace forge {

// True if T is a Container of something: kIsA<std::vector<int>, std::vector>.
template <class T, template <class...> class Container>
constexpr bool kIsA = false;

template <template <class...> class Container, class... Parts>
constexpr bool kIsA<Container<Parts...>, Container> = true;

class MemberFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  // Returns the fault as seen from one level further out: "bytes: …" in "lines[2]" becomes
  // "lines[2].bytes: …".
  MemberFault inside(const std::string& place) const {
    const std::string text = what();
    const bool nested = text.starts_with('[') || text.starts_with(": ");
    return MemberFault(place + (nested ? "" : ".") + text);
  }
  // Returns the text for a message: "plan.json: lines[2].bytes: …".
  std::string at(const std::string& file) const {
    const std::string text = what();
    return file + (text.starts_with(": ") ? "" : ": ") + text;
  }
};

// Range of numbers that a member may have.
struct Range {
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
};
constexpr Range at_least(double least) { return {.least = least}; }
constexpr Range between(double least, double most) { return {least, most}; }

// Returns the value that was found, for messages.
inline std::string found_text(const Json& json) {
  std::string text = dump_json(json);
  if (text.size() > 40) text = json.is_object() ? "an object" : json.is_array() ? "a list" : text.substr(0, 40) + "…";
  return text;
}

// Reads a value. Throws MemberFault(": expected …, found …").
template <class T>
void read_value(const Json& json, T& value, Range range = {}) {
  const auto require = [&](bool good, const std::string& expected) {
    if (!good) throw MemberFault(": expected " + expected + ", found " + found_text(json));
  };
  const auto require_range = [&](double number) {
    require(number >= range.least, "at least " + format_number(range.least));
    require(number <= range.most, "at most " + format_number(range.most));
  };
  if constexpr (kIsA<T, std::optional>) {  // null: there is none
    value.reset();
    if (!json.is_null()) read_value(json, value.emplace(), range);
  } else if constexpr (std::is_same_v<T, bool>) {
    require(json.is_boolean(), "true or false");
    value = json.get<bool>();
  } else if constexpr (std::is_integral_v<T>) {
    const bool fits = json.is_number_integer() && (!json.is_number_unsigned() || json.get<uint64_t>() <= INT64_MAX);
    require(fits && std::in_range<T>(json.get<int64_t>()), "a whole number");
    value = json.get<T>();
    require_range(static_cast<double>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    require(json.is_number(), "a number");
    value = json.get<T>();
    require_range(value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    require(json.is_string(), "a text");
    value = json.get<std::string>();
  } else if constexpr (kIsA<T, std::vector>) {
    require(json.is_array(), "a list");
    value.clear();
    for (size_t i = 0; i < json.size(); ++i) try {
        read_value(json[i], value.emplace_back(), range);
      } catch (const MemberFault& fault) {
        throw fault.inside("[" + std::to_string(i) + "]");
      }
  } else if constexpr (kIsA<T, std::map>) {
    require(json.is_object(), "an object");
    value.clear();
    for (const auto& [name, item] : json.items()) try {
        read_value(item, value[name], range);
      } catch (const MemberFault& fault) {
        throw fault.inside(name);
      }
  } else {
    try {
      from_json(json, value);
    } catch (const MemberFault&) {
      throw;
    } catch (const std::exception& fault) {  // of types that are not lists of members
      throw MemberFault(std::string(": ") + fault.what());
    }
  }
}

// Returns the JSON Schema of a value's type; a struct gives its own by schema_of.
template <class T>
Json value_schema(const T& value) {
  if constexpr (std::is_same_v<T, bool>) return {{"type", "boolean"}};
  else if constexpr (std::is_integral_v<T>) return {{"type", "integer"}};
  else if constexpr (std::is_floating_point_v<T>) return {{"type", "number"}};
  else if constexpr (std::is_same_v<T, std::string>) return {{"type", "string"}};
  else if constexpr (kIsA<T, std::vector>)
    return {{"type", "array"}, {"items", value_schema(typename T::value_type())}};
  else if constexpr (kIsA<T, std::map>)
    return {{"type", "object"}, {"additionalProperties", value_schema(typename T::mapped_type())}};
  else return schema_of(value);
}

struct MemberWriter {
  Json& json;
  template <class T>
  void operator()(const char* name, const T& value, const char*, Range = {}) {
    if constexpr (kIsA<T, std::optional>)
      json[name] = value ? Json(*value) : Json(nullptr);
    else
      json[name] = value;
  }
  template <class T>
  void later(const char* name, const T& value, const char* meaning, Range = {}) {
    (*this)(name, value, meaning);
  }
  template <class T>
  void rare(const char* name, const T& value, const char* meaning, Range = {}) {
    if (value != T{}) (*this)(name, value, meaning);
  }
  template <class Members>
  void group(const char* name, const char*, Members members) {
    members(MemberWriter{json[name] = Json::object()});
  }
};

struct MemberReader {
  const Json& json;
  template <class T>
  void operator()(const char* name, T& value, const char*, Range range = {}) {
    inside(name, [&](const Json& found) { read_value(found, value, range); });
  }
  template <class T>
  void later(const char* name, T& value, const char* meaning, Range range = {}) {
    if (json.is_object() && json.contains(name)) (*this)(name, value, meaning, range);
  }
  template <class T>
  void rare(const char* name, T& value, const char* meaning, Range range = {}) {
    later(name, value, meaning, range);
  }
  template <class Members>
  void group(const char* name, const char*, Members members) {
    inside(name, [&](const Json& found) { members(MemberReader{found}); });
  }

 private:
  template <class Read>
  void inside(const char* name, Read read) {
    if (!json.is_object()) throw MemberFault(": expected an object, found " + found_text(json));
    const auto found = json.find(name);
    if (found == json.end()) throw MemberFault(std::string(name) + ": is missing");
    try {
      read(*found);
    } catch (const MemberFault& fault) {
      throw fault.inside(name);
    }
  }
};

struct MemberSchema {
  Json& schema;
  template <class T>
  void operator()(const char* name, const T& value, const char* meaning, Range range = {}) {
    Json property = value_schema(value);
    if (std::isfinite(range.least)) property["minimum"] = as_number(range.least);
    if (std::isfinite(range.most)) property["maximum"] = as_number(range.most);
    add(name, std::move(property), meaning);
  }
  template <class T>
  void later(const char* name, const T& value, const char* meaning, Range range = {}) {
    (*this)(name, value, meaning, range);
    schema["required"].erase(schema["required"].size() - 1);
  }
  template <class T>
  void rare(const char* name, const T& value, const char* meaning, Range range = {}) {
    later(name, value, meaning, range);
  }
  template <class Members>
  void group(const char* name, const char* meaning, Members members) {
    Json inner{{"type", "object"}};
    members(MemberSchema{inner});
    add(name, std::move(inner), meaning);
  }

 private:
  static Json as_number(double limit) {
    return limit == std::floor(limit) ? Json(static_cast<int64_t>(limit)) : Json(limit);
  }
  void add(const char* name, Json property, const char* meaning) {
    property["description"] = meaning;
    schema["properties"][name] = std::move(property);
    schema["required"].push_back(name);
  }
};

template <class T, class Members>
Json write_members(const T& value, Members members) {
  Json json = Json::object();
  members(value, MemberWriter{json});
  return json;
}

template <class T, class Members>
void read_members(const Json& json, T& value, Members members) {
  members(value, MemberReader{json});
}

template <class T, class Members>
Json members_schema(const T& value, Members members) {
  Json schema{{"type", "object"}};
  members(value, MemberSchema{schema});
  return schema;
}

// Reads JSON and gives it to `read`. Throws Error(environment) "PATH: key: what" for a fault that
// it finds.
template <class Read>
void read_checked(const Json& json, const std::string& name, Read read) {
  try {
    read(json);
  } catch (const MemberFault& fault) {
    throw Error(ErrorKind::environment, fault.at(name));
  }
}

}  // namespace forge
