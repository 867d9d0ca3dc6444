#pragma once
// What stands in metrics.jsonl and on the engine's stdout, and in report.json: one table each, from which schemas and
// docs/engine-protocol.md are written and against which events are checked.
#include <span>
#include <string>
#include <vector>

#include "core/io/json.h"

namespace forge {

enum class FieldType { integer, number, text, flag, object, list };

struct EventField {
  const char* name;
  FieldType type;
  bool required;
  const char* meaning;  // with its unit
};

struct EventShape {
  const char* name;
  const char* meaning;
  std::span<const EventField> fields;
};

std::span<const EventShape> event_shapes();

// JSON Schema (2020-12) of one event: schemas/event.schema.json.
Json event_schema();
// JSON Schema of report.json: schemas/report.schema.json.
Json report_schema();

// What is wrong with an event, one sentence each; empty for a good one. Additional fields are allowed.
std::vector<std::string> event_faults(const Json& event);

// Of an object with these fields, one sentence each: "NAME: FIELD is missing". Null is the value of a field that is
// not required.
std::vector<std::string> field_faults(const std::string& name, std::span<const EventField> fields,
                                      const Json& object);
// "a whole number": a field's type in a sentence.
const char* name_of(FieldType type);

}  // namespace forge
