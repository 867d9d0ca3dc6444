#include "core/job/field.h"

#include <algorithm>
#include <cmath>

#include "core/lib/base/text.h"

namespace forge {

std::vector<std::string> dotted_keys(const std::vector<Field>& fields, const std::string& prefix) {
  std::vector<std::string> keys;
  for (const Field& field : fields) {
    keys.push_back(prefix + field.key);
    for (std::string& key : dotted_keys(field.fields, prefix + field.key + "."))
      keys.push_back(std::move(key));
  }
  return keys;
}

namespace {

template <class Wanted>
void collect(const std::vector<Field>& fields, const std::string& prefix, Wanted wanted,
             std::vector<std::string>& keys) {
  for (const Field& field : fields)
    if (field.kind == FieldKind::section)
      collect(field.fields, prefix + field.key + ".", wanted, keys);
    else if (wanted(field))
      keys.push_back(prefix + field.key);
}

template <class Wanted>
std::vector<std::string> keys_where(Wanted wanted) {
  std::vector<std::string> keys;
  collect(job_fields(), "", wanted, keys);
  return keys;
}

}  // namespace

std::vector<std::string> keys_of_role(KeyRole role) {
  return keys_where([&](const Field& field) { return field.role == role; });
}

std::vector<std::string> keys_that_make_examples() {
  return keys_where([](const Field& field) { return field.makes_examples; });
}

std::vector<std::string> keys_of(const std::vector<Field>& fields) {
  std::vector<std::string> keys;
  for (const Field& field : fields) keys.push_back(field.key);
  return keys;
}

const Field* field_of(const std::vector<Field>& fields, const std::string& key) {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const Field& field) { return field.key == key; });
  return found == fields.end() ? nullptr : &*found;
}

const Field* find_field(const std::string& dotted) {
  const std::vector<Field>* fields = &job_fields();
  const Field* found = nullptr;
  for (const std::string& part : split(dotted, '.')) {
    found = field_of(*fields, part);
    if (!found) return nullptr;
    fields = &found->fields;
  }
  return found;
}

bool inside_list(const std::string& dotted) {
  for (size_t dot = dotted.find('.'); dot != std::string::npos; dot = dotted.find('.', dot + 1))
    if (const Field* field = find_field(dotted.substr(0, dot)); field && field->kind == FieldKind::sections) return true;
  return false;
}

namespace {

void add_keys_of_others(const std::vector<Field>& fields, const std::string& type, const std::string& prefix,
                        std::vector<KeyOfOthers>& keys) {
  for (const Field& field : fields)
    if (!field.fields.empty())
      add_keys_of_others(field.fields, type, prefix + field.key + ".", keys);
    else if (!field.types.empty() && std::find(field.types.begin(), field.types.end(), type) == field.types.end())
      keys.push_back({prefix + field.key, field.types});
}

}  // namespace

std::vector<KeyOfOthers> keys_of_others(const std::vector<Field>& fields, const void* object) {
  std::vector<KeyOfOthers> keys;
  for (const Field& field : fields)
    if (field.picks_type) add_keys_of_others(fields, std::get<std::string>(field.get(object)), "", keys);
  return keys;
}

std::string range_text(const Field& field) {
  bool low = std::isfinite(field.minimum), high = std::isfinite(field.maximum);
  std::string from = format_number(field.minimum),
              to = (field.below_maximum ? "below " : "") + format_number(field.maximum);
  if (low && high && field.minimum == field.maximum) return from;
  if (low && high)
    return (field.above_minimum ? "above " : "") + from + (field.above_minimum ? " and up to " : " to ") + to;
  if (low) return field.above_minimum ? "above " + from : from + " or more";
  if (high) return field.below_maximum ? to : "at most " + to;
  return "";
}

}  // namespace forge
