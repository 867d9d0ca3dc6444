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
std::vector<std::string> keys_where(Wanted wanted) {
  std::vector<std::string> keys = value_keys();
  std::erase_if(keys, [&](const std::string& key) { return !wanted(*find_field(key)); });
  return keys;
}

}  // namespace

std::vector<std::string> value_keys() {
  std::vector<std::string> keys = dotted_keys(job_fields());
  std::erase_if(keys, [](const std::string& key) {
    return find_field(key)->kind == FieldKind::section || inside_list(key);
  });
  return keys;
}

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

std::vector<std::string> accepted_words(const Field& field) {
  std::vector<std::string> words = field.choices;
  words.insert(words.end(), field.also.begin(), field.also.end());
  return words;
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
