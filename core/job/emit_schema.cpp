#include <algorithm>
#include <cmath>

#include "core/job/emit.h"
#include "core/job/field.h"
#include "core/job/job_json.h"

namespace forge {
namespace {

Json ranged(const char* type, const Field& field) {
  Json schema{{"type", type}};
  const bool whole = std::string_view(type) == "integer";
  auto number = [&](double value) { return whole ? Json(static_cast<int64_t>(value)) : Json(value); };
  if (std::isfinite(field.minimum))
    schema[field.above_minimum ? "exclusiveMinimum" : "minimum"] = number(field.minimum);
  if (std::isfinite(field.maximum))
    schema[field.below_maximum ? "exclusiveMaximum" : "maximum"] = number(field.maximum);
  return schema;
}

Json text_schema() { return {{"type", "string"}, {"minLength", 1}}; }

Json object_schema(const std::vector<Field>& fields, void* object);

// Returns the schemas of a single item and of a list of items.
Json one_or_list(const Json& item, Json list) {
  list["type"] = "array";
  list["items"] = item;
  return Json::array({item, std::move(list)});
}

Json map_of(Json value) {
  return Json::array({{{"type", "object"}, {"additionalProperties", std::move(value)}}});
}

Json forms(const Field& field, void* object);

// Returns the forms of a list of sections: one alone, by its shorthand or whole, or a list of them.
Json section_list(const Field& field, void* object) {
  field.resize(object, 1);
  Json source = object_schema(field.fields, field.element(object, 0));
  Json alone = text_schema();
  if (const Field* inner = field_of(field.fields, field.shorthand))
    alone = forms(*inner, field.element(object, 0))[0];
  Json item{{"anyOf", Json::array({alone, source})}};
  Json list{{"type", "array"}, {"items", item}};
  if (field.required) list["minItems"] = 1;
  return Json::array({std::move(alone), std::move(source), std::move(list)});
}

// Returns the forms that a value may take. Several become anyOf.
Json forms(const Field& field, void* object) {
  switch (field.kind) {
    case FieldKind::boolean:
      return Json::array({{{"type", "boolean"}}});
    case FieldKind::integer:
      return Json::array({ranged("integer", field)});
    case FieldKind::number:
      return Json::array({ranged("number", field)});
    case FieldKind::bytes:
      return Json::array(
          {ranged("integer", field), {{"type", "string"}, {"pattern", "^[0-9.]+ *([kmgtKMGT][iI]?)?[bB]$"}}});
    case FieldKind::seconds:
      return Json::array(
          {ranged("number", field), {{"type", "string"}, {"pattern", "^([0-9.]+ *[smhd] *)+$"}}});
    case FieldKind::text:
      return Json::array({text_schema()});
    case FieldKind::choice:
      return Json::array({{{"enum", accepted_words(field)}}});
    case FieldKind::texts:
      return one_or_list(text_schema(), Json::object());
    case FieldKind::targets:
      return one_or_list(text_schema(), field.choices.empty() ? Json::object() : Json{{"minItems", 1}});
    case FieldKind::numbers:
    case FieldKind::integers: {
      Json item = ranged(field.kind == FieldKind::numbers ? "number" : "integer", field);
      if (field.length == 0) return one_or_list(item, Json::object());
      return Json::array(
          {{{"type", "array"}, {"items", item}, {"minItems", field.length}, {"maxItems", field.length}}});
    }
    case FieldKind::integer_map:
      return map_of(ranged("integer", field));
    case FieldKind::integer_lists: {
      Json ids{{"type", "array"}, {"items", ranged("integer", field)}};
      return Json::array({ids, map_of(ids)[0]});
    }
    case FieldKind::number_map:
      return map_of(ranged("number", field));
    case FieldKind::text_map:
      return map_of(text_schema());
    case FieldKind::scalar_map:
      return map_of({{"type", {"boolean", "number", "string"}}});
    case FieldKind::section: {
      Json result = Json::array({object_schema(field.fields, field.member(object))});
      if (const Field* inner = field_of(field.fields, field.shorthand))
        for (Json& form : forms(*inner, field.member(object)))
          result.insert(result.begin(), std::move(form));
      return result;
    }
    case FieldKind::sections:
      return section_list(field, object);
  }
  return Json::array();
}

Json field_schema(const Field& field, void* object) {
  bool leaf = field.kind != FieldKind::section && field.kind != FieldKind::sections;
  Json value = leaf ? value_of(field, object) : Json(nullptr);
  Json all = forms(field, object);
  if (field.automatic) all.push_back({{"const", "auto"}});
  Json schema = Json::object();
  schema["description"] = field.doc + (field.when_unset.empty() ? "" : " Not set: " + field.when_unset + ".");
  if (leaf && !field.required) schema["default"] = std::move(value);
  // Blank means "not set" for every optional key, so null is one of its forms.
  if (all.size() > 1) {
    if (!field.required) all.push_back({{"type", "null"}});
    schema["anyOf"] = std::move(all);
    return schema;
  }
  schema.update(all[0]);
  if (field.required) return schema;
  if (schema.contains("enum"))
    schema["enum"].push_back(nullptr);
  else
    schema["type"] = Json::array({schema["type"], "null"});
  return schema;
}

// Returns the keys that an object with these fields must state: a path, or the hub's repository in
// place of it.
Json required_of(const std::vector<Field>& fields, bool (*counts)(const Field& field)) {
  Json required = Json::array(), result = Json::object();
  const bool hub = std::any_of(fields.begin(), fields.end(), [](const Field& field) { return field.key == "repo"; });
  for (const Field& field : fields) {
    if (!field.required || !counts(field)) continue;
    if (field.key != "path" || !hub) {
      required.push_back(field.key);
      continue;
    }
    for (const char* key : {"path", "repo"}) result["anyOf"].push_back({{"required", Json::array({key})}});
  }
  if (!required.empty()) result["required"] = std::move(required);
  return result;
}

Json object_schema(const std::vector<Field>& fields, void* object) {
  Json properties = Json::object();
  for (const Field& field : fields) properties[field.key] = field_schema(field, object);
  Json schema{{"type", "object"}, {"additionalProperties", false}, {"properties", std::move(properties)}};
  schema.update(required_of(fields, [](const Field& field) {
    return field.kind == FieldKind::text || field.kind == FieldKind::choice;
  }));
  return schema;
}

// Returns the keys that a file must state itself unless it extends another one.
Json required_without_extends() {
  Json names = Json::array(), inside = Json::object();
  for (const Field& field : job_fields()) {
    if (!field.required) continue;
    names.push_back(field.key);
    inside[field.key] = required_of(field.fields, [](const Field&) { return true; });
  }
  return {{"required", std::move(names)}, {"properties", std::move(inside)}};
}

}  // namespace

std::string job_schema_json() {
  Job job;
  Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"title", "forge job"},
              {"description", "One fine-tuning run. Reference: docs/job.md"}};
  Json body = object_schema(job_fields(), &job);
  // A section's required keys may come from a base file: see required_without_extends.
  for (auto& [key, property] : body["properties"].items()) {
    property.erase("required");
    if (property.contains("anyOf"))
      for (Json& form : property["anyOf"]) form.erase("required"), form.erase("anyOf");
  }
  body["properties"]["$schema"] = {
      {"description", "Path of this schema, for editors. forge does not read it."},
      {"type", "string"}};
  body["properties"]["extends"] = {
      {"description",
       "Job files to inherit from. Later files override earlier ones, and this file overrides all. "
       "Maps merge; lists replace."},
      {"anyOf",
       Json::array({text_schema(), {{"type", "array"}, {"items", text_schema()}}, {{"type", "null"}}})}};
  schema.update(body);
  schema["if"] = {{"not", {{"required", Json::array({"extends"})}}}};
  schema["then"] = required_without_extends();
  return schema.dump(2) + "\n";
}

}  // namespace forge
