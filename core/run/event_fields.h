#pragma once
// The fields of the events in metrics.jsonl and on the engine's stdout, and those of report.json:
// one table each. The schemas and docs/engine-protocol.md are written from these tables, and events
// are checked against them.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/lib/io/json.h"

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
std::span<const EventField> report_fields();

// Returns the JSON Schema (2020-12) of one event: schemas/event.schema.json.
Json event_schema();
// Returns the JSON Schema of report.json: schemas/report.schema.json.
Json report_schema();

// Returns what is wrong with an event, one sentence for each fault; empty for a valid one.
// Additional fields are allowed.
std::vector<std::string> event_faults(const Json& event);

// Returns the faults of an object that should have these fields, one sentence each: "NAME: FIELD is
// missing". A field that is not required may be null.
std::vector<std::string> field_faults(const std::string& name, std::span<const EventField> fields,
                                      const Json& object);
// Return a number of an event; `otherwise` or 0 if it has none. JSON has null for values that are
// not finite.
double number_of(const Json& event, const std::string& key, double otherwise = 0);
int64_t integer_of(const Json& event, const std::string& key);
// Returns a field's type in the words of a table: "integer".
const char* short_name_of(FieldType type);

}  // namespace forge
