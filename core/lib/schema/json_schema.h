#pragma once
// JSON Schema, a stated part of draft 2020-12: type, enum, const, properties, required,
// additionalProperties, minProperties, maxProperties, items, prefixItems, minItems, maxItems,
// uniqueItems, minLength, maxLength, pattern, minimum, maximum, exclusiveMinimum, exclusiveMaximum,
// multipleOf, anyOf, oneOf, allOf, not, $ref within the file, and $defs. Keywords that only
// describe are ignored. Any other keyword is refused, since ignoring it would accept values that it
// forbids.
//
//   JsonSchema schema(parse_json(R"({"type": "object", "required": ["a"]})", …), "rewards[0].schema");
//   schema.problem(Json::object())   // "a is missing"
//
// valijson is not used: its `pattern` runs on std::regex, which bounds no steps and recurses, and
// its header compiles for 22 s. The verdicts of Python's jsonschema are the goldens.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/lib/io/json.h"
#include "core/lib/schema/text_pattern.h"

namespace forge {

// Returns the type of a value; "integer" for a whole number, however it is written.
std::string json_type(const Json& value);
// Returns the types that a valid `type` names: one, or those of a list.
std::vector<std::string> named_types(const Json& type);
// Returns the schema that a valid "$ref" names.
const Json& referenced(const Json& root, const Json& reference);

class JsonSchema {
 public:
  // Throws KeyError(job) at `key`, with the pointer into the schema, for a keyword or a value that
  // is not supported.
  JsonSchema(Json schema, const std::string& key);
  // Returns what is wrong with the value ("/a/2 is a text, expected a number"); empty when it is
  // valid. Throws PatternGaveUp, also for schemas that need too many steps.
  std::string problem(const Json& value) const { return problem(value, root_); }
  // Checks against another schema, made of parts of this one: its references lead into this one.
  std::string problem(const Json& value, const Json& schema) const;
  const Json& root() const { return root_; }

 private:
  Json root_;
  std::map<std::string, TextPattern> patterns_;
};

}  // namespace forge
