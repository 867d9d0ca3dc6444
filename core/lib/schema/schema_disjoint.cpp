#include "core/lib/schema/schema_disjoint.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "core/lib/schema/json_schema.h"

namespace forge {
namespace {

// Returns the values that a schema lists.
std::optional<std::vector<Json>> constants(const Json& schema) {
  if (!schema.is_object()) return std::nullopt;
  if (schema.contains("const")) return std::vector<Json>{schema["const"]};
  if (schema.contains("enum")) return schema["enum"].get<std::vector<Json>>();
  return std::nullopt;
}

// Returns the types that a schema states or lists values of; none if it allows any.
std::vector<std::string> stated_types(const Json& schema) {
  std::vector<std::string> types;
  if (const auto values = constants(schema)) {
    for (const Json& one : *values) types.push_back(json_type(one));
  } else if (schema.is_object() && schema.contains("type")) {
    types = named_types(schema["type"]);
  }
  for (std::string& type : types)
    if (type == "integer") type = "number";
  return types;
}

}  // namespace

bool visibly_disjoint(const Json& first, const Json& second, const Json& root) {
  const auto target = [&](const Json& schema) -> const Json& {
    return schema.is_object() && schema.contains("$ref") ? referenced(root, schema["$ref"]) : schema;
  };
  const Json &a = target(first), &b = target(second);
  const std::vector<std::string> types = stated_types(a), others = stated_types(b);
  if (!types.empty() && !others.empty() &&
      std::none_of(types.begin(), types.end(),
                   [&](const std::string& t) { return std::count(others.begin(), others.end(), t) > 0; }))
    return true;
  const auto differ = [](const Json& x, const Json& y) {
    const auto values = constants(x), wanted = constants(y);
    return values && wanted && std::none_of(values->begin(), values->end(), [&](const Json& v) {
             return std::count(wanted->begin(), wanted->end(), v) > 0;
           });
  };
  if (differ(a, b)) return true;
  if (!a.is_object() || !b.is_object() || !a.contains("properties") || !b.contains("properties"))
    return false;
  const auto requires_member = [](const Json& schema, const std::string& name) {
    const auto found = schema.find("required");
    return found != schema.end() && std::count(found->begin(), found->end(), Json(name)) > 0;
  };
  const auto is_object = [](const std::vector<std::string>& stated) {
    return stated == std::vector<std::string>{"object"};
  };
  for (const auto& item : a["properties"].items())
    if (is_object(types) && is_object(others) && b["properties"].contains(item.key()) &&
        requires_member(a, item.key()) && requires_member(b, item.key()) &&
        differ(item.value(), b["properties"][item.key()]))
      return true;
  return false;
}

}  // namespace forge
