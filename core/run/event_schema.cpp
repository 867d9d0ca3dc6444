#include "core/run/event_fields.h"

namespace forge {
namespace {

struct TypeWords {
  Json schema;
  bool (*holds)(const Json& value);
  const char* name;        // in the words of a sentence
  const char* short_name;  // in a table
};

// Returns the words of a type. NaN and infinities are written as null.
const TypeWords& words_of(FieldType type) {
  static const TypeWords kWords[] = {
      {"integer", [](const Json& value) { return value.is_number_integer(); }, "a whole number",
       "integer"},
      {Json::array({"number", "null"}),
       [](const Json& value) { return value.is_number() || value.is_null(); }, "a number or null",
       "number"},
      {"string", [](const Json& value) { return value.is_string(); }, "a text", "text"},
      {"boolean", [](const Json& value) { return value.is_boolean(); }, "true or false",
       "true or false"},
      {"object", [](const Json& value) { return value.is_object(); }, "an object", "object"},
      {"array", [](const Json& value) { return value.is_array(); }, "a list", "list"}};
  return kWords[static_cast<int>(type)];
}

void add_fields(Json& schema, std::span<const EventField> fields) {
  for (const EventField& field : fields) {
    schema["properties"][field.name] = {{"type", words_of(field.type).schema}, {"description", field.meaning}};
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

double number_of(const Json& event, const std::string& key, double otherwise) {
  const auto found = event.find(key);
  return found != event.end() && found->is_number() ? found->get<double>() : otherwise;
}

int64_t integer_of(const Json& event, const std::string& key) {
  return static_cast<int64_t>(number_of(event, key));
}

const char* short_name_of(FieldType type) { return words_of(type).short_name; }

std::vector<std::string> field_faults(const std::string& name, std::span<const EventField> fields,
                                      const Json& object) {
  std::vector<std::string> faults;
  for (const EventField& field : fields) {
    auto found = object.find(field.name);
    if (found == object.end()) {
      if (field.required) faults.push_back(name + ": " + field.name + " is missing");
    } else if (!words_of(field.type).holds(*found) && (field.required || !found->is_null())) {
      faults.push_back(name + ": " + field.name + " is not " + words_of(field.type).name);
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
