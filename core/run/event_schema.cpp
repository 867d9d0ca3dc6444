#include "core/run/event_fields.h"

namespace forge {
namespace {

using enum FieldType;

Json schema_type(FieldType type) {
  switch (type) {
    case integer:
      return "integer";
    case number:
      return Json::array({"number", "null"});  // NaN and infinities are written as null
    case text:
      return "string";
    case flag:
      return "boolean";
    case object:
      return "object";
    case list:
      return "array";
  }
  return nullptr;
}

bool has_type(const Json& value, FieldType type) {
  switch (type) {
    case integer:
      return value.is_number_integer();
    case number:
      return value.is_number() || value.is_null();
    case text:
      return value.is_string();
    case flag:
      return value.is_boolean();
    case object:
      return value.is_object();
    case list:
      return value.is_array();
  }
  return false;
}

void add_fields(Json& schema, std::span<const EventField> fields) {
  for (const EventField& field : fields) {
    schema["properties"][field.name] = {{"type", schema_type(field.type)}, {"description", field.meaning}};
    if (field.required) schema["required"].push_back(field.name);
  }
}

}  // namespace

Json event_schema() {
  Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"title", "forge event"},
              {"description", "One line of metrics.jsonl or of the engine's event stream."},
              {"oneOf", Json::array()}};
  for (const EventShape& shape : event_shapes()) {
    Json one{{"title", shape.name}, {"description", shape.meaning}, {"type", "object"}};
    one["properties"]["event"] = {{"const", shape.name}};
    one["required"] = Json::array({"event"});
    add_fields(one, shape.fields);
    schema["oneOf"].push_back(std::move(one));
  }
  return schema;
}

Json report_schema() {
  Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"title", "forge report"},
              {"description", "report.json of a run folder."},
              {"type", "object"},
              {"properties", Json::object()},
              {"required", Json::array()}};
  add_fields(schema, report_fields());
  return schema;
}

const char* name_of(FieldType type) {
  constexpr const char* kNames[] = {"a whole number", "a number or null", "a text",
                                    "true or false",  "an object",        "a list"};
  return kNames[static_cast<int>(type)];
}

std::vector<std::string> field_faults(const std::string& name, std::span<const EventField> fields,
                                      const Json& object) {
  std::vector<std::string> faults;
  for (const EventField& field : fields) {
    auto found = object.find(field.name);
    if (found == object.end()) {
      if (field.required) faults.push_back(name + ": " + field.name + " is missing");
    } else if (!has_type(*found, field.type) && (field.required || !found->is_null())) {
      faults.push_back(name + ": " + field.name + " is not " + name_of(field.type));
    }
  }
  return faults;
}

std::vector<std::string> event_faults(const Json& event) {
  if (!event.is_object() || !event.contains("event") || !event["event"].is_string())
    return {"an event is an object with the text \"event\""};
  const std::string name = event["event"].get<std::string>();
  for (const EventShape& shape : event_shapes())
    if (name == shape.name) return field_faults(name, shape.fields, event);
  return {"unknown event \"" + name + "\""};
}

}  // namespace forge
