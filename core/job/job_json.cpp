#include "core/job/job_json.h"

#include "core/job/diagnostics.h"
#include "core/job/field.h"
#include "core/job/parse.h"
#include "core/lib/base/text.h"

namespace forge {

Json json_of(const std::map<std::string, Scalar>& scalars) {
  Json result = Json::object();
  for (const auto& [name, scalar] : scalars)
    std::visit([&, &name = name](const auto& value) { result[name] = value; }, scalar);
  return result;
}

namespace {

Json json_of(const FieldValue& value, const Field& field) {
  return std::visit(
      [&](const auto& item) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(item)>, std::monostate>)
          return field.automatic ? Json("auto") : Json(nullptr);
        else if constexpr (std::is_same_v<std::decay_t<decltype(item)>, std::map<std::string, Scalar>>)
          return forge::json_of(item);
        else if constexpr (std::is_same_v<std::decay_t<decltype(item)>, std::map<std::string, std::vector<int64_t>>>)
          return item.size() == 1 && item.count("") ? Json(item.at("")) : Json(item);
        else
          return Json(item);
      },
      value);
}

Json object_of(const std::vector<Field>& fields, const void* object) {
  Json result = Json::object();
  for (const Field& field : fields) result[field.key] = value_of(field, object);
  return result;
}

// A key's entry, and the struct that its table describes.
struct Place {
  const Field* field = nullptr;
  const void* object = nullptr;
};

Place place_of(const Job& job, const std::string& dotted_key) {
  const std::vector<Field>* fields = &job_fields();
  const void* object = &job;
  std::vector<std::string> parts = split(dotted_key, '.');
  for (size_t i = 0; i < parts.size(); ++i) {
    const Field* found = field_of(*fields, parts[i]);
    FORGE_CHECK(found, "no key " << dotted_key);
    if (i + 1 == parts.size()) return {found, object};
    FORGE_CHECK(found->kind == FieldKind::section, dotted_key << " goes through a list");
    object = found->member_of(object);
    fields = &found->fields;
  }
  return {};
}

}  // namespace

Json value_of(const Field& field, const void* object) {
  if (field.kind == FieldKind::section) return object_of(field.fields, field.member_of(object));
  if (field.kind != FieldKind::sections) return json_of(field.get(object), field);
  Json list = Json::array();
  for (size_t i = 0; i < field.size(object); ++i)
    list.push_back(object_of(field.fields, field.element(const_cast<void*>(object), i)));
  return list;
}

Json to_json(const Job& job) { return object_of(job_fields(), &job); }

Job job_from_json(const Json& value, const std::string& name) {
  Job job;
  Parsed parsed;
  Diagnostics faults;
  Node node = node_of(value, name);
  if (!node.is_map()) faults.add(node.at, "", describe(node) + ", expected a job");
  // The texts came out of a job, so 2026 may be a name here: JSON says which values are text.
  else
    parse_section(node, job_fields(), &job, "", nullptr, parsed, faults);
  faults.throw_if_any();
  return job;
}

Json value_of(const Job& job, const std::string& dotted_key) {
  const Place place = place_of(job, dotted_key);
  return value_of(*place.field, place.object);
}

Json beside_default(const std::string& dotted_key, const Json& value) {
  if (!find_field(dotted_key) || inside_list(dotted_key)) return value;
  Job job;
  const Place place = place_of(job, dotted_key);
  if (value == value_of(*place.field, place.object)) return nullptr;
  if (place.field->kind != FieldKind::sections || !value.is_array()) return value;
  place.field->resize(const_cast<void*>(place.object), 1);
  const Json item_default = value_of(*place.field, place.object)[0];
  Json items = value;
  for (Json& item : items) {
    if (!item.is_object()) continue;
    for (const auto& [member, usual] : item_default.items())
      if (item.contains(member) && item[member] == usual) item.erase(member);
  }
  return items;
}

}  // namespace forge
