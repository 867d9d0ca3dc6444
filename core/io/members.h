#pragma once
// A struct that goes to JSON, comes back exactly and has a schema, from one list of its members.
//
//   constexpr auto kPointMembers = [](auto& point, auto&& member) {
//     member("step", point.step, "optimizer steps done before the evaluation");
//     member("loss", point.loss, "mean over its supervised tokens");
//   };
//   void to_json(Json& json, const EvalPoint& point) { json = write_members(point, kPointMembers); }
//   void from_json(const Json& json, EvalPoint& point) { read_members(json, point, kPointMembers); }
//   Json schema_of(const EvalPoint& point) { return members_schema(point, kPointMembers); }
//
// Members are numbers, texts, flags, lists and maps of them, and what has these three functions itself;
// member.group(name, meaning, members) is an object around some of them. Reading throws nlohmann::json::exception
// for a member that is missing or of another type: the caller knows the file.
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "core/io/json.h"

namespace forge {

template <class T>
struct ListOf : std::false_type {};
template <class T>
struct ListOf<std::vector<T>> : std::true_type {};
template <class T>
struct MapOf : std::false_type {};
template <class T>
struct MapOf<std::map<std::string, T>> : std::true_type {};

// JSON Schema of a value's type; a struct says its own by schema_of.
template <class T>
Json value_schema(const T& value) {
  if constexpr (std::is_same_v<T, bool>) return {{"type", "boolean"}};
  else if constexpr (std::is_integral_v<T>) return {{"type", "integer"}};
  else if constexpr (std::is_floating_point_v<T>) return {{"type", "number"}};
  else if constexpr (std::is_same_v<T, std::string>) return {{"type", "string"}};
  else if constexpr (ListOf<T>::value)
    return {{"type", "array"}, {"items", value_schema(typename T::value_type())}};
  else if constexpr (MapOf<T>::value)
    return {{"type", "object"}, {"additionalProperties", value_schema(typename T::mapped_type())}};
  else return schema_of(value);
}

struct MemberWriter {
  Json& json;
  template <class T>
  void operator()(const char* name, const T& value, const char*) {
    json[name] = value;
  }
  template <class Members>
  void group(const char* name, const char*, Members members) {
    members(MemberWriter{json[name] = Json::object()});
  }
};

struct MemberReader {
  const Json& json;
  template <class T>
  void operator()(const char* name, T& value, const char*) {
    json.at(name).get_to(value);
  }
  template <class Members>
  void group(const char* name, const char*, Members members) {
    members(MemberReader{json.at(name)});
  }
};

struct MemberSchema {
  Json& schema;
  template <class T>
  void operator()(const char* name, const T& value, const char* meaning) {
    add(name, value_schema(value), meaning);
  }
  template <class Members>
  void group(const char* name, const char* meaning, Members members) {
    Json inner{{"type", "object"}};
    members(MemberSchema{inner});
    add(name, std::move(inner), meaning);
  }

 private:
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

}  // namespace forge
