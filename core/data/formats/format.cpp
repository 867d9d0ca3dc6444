#include "core/data/formats/format.h"

#include "core/base/text.h"

namespace forge {

const Json* member(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string kind_of(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number()) return "the number " + dump_json(value);
  if (value.is_string()) return "a text";
  return value.is_array() ? "a list" : "an object";
}

namespace {
std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& item : object.items()) keys.push_back(item.key());
  return keys;
}
}  // namespace

std::string text_member(const Json& object, const std::string& key, const std::string& pointer, bool required,
                        RowFaults& faults) {
  const Json* value = member(object, key);
  if (value && value->is_string()) return value->get<std::string>();
  if (value)
    faults.push_back({pointer + "/" + key, key + " is " + kind_of(*value) + ", expected a text"});
  else if (required && object.contains(key))
    faults.push_back({pointer + "/" + key, key + " is null, expected a text"});
  else if (required)
    faults.push_back({pointer, key + " is missing, expected a text" + did_you_mean(key, keys_of(object))});
  return "";
}

Json tools_member(const Json& row, RowFaults& faults) {
  const Json* tools = member(row, "tools");
  if (!tools) return nullptr;
  if (tools->is_array()) return tools->empty() ? Json(nullptr) : *tools;
  if (tools->is_string() && trim(tools->get<std::string>()).empty()) return nullptr;
  if (tools->is_string()) {
    try {
      Json parsed = parse_json(tools->get<std::string>(), "tools", ErrorKind::data);
      if (parsed.is_array()) return parsed.empty() ? Json(nullptr) : parsed;
    } catch (const Error&) {
    }
    faults.push_back({"/tools", "tools is a text that is not a JSON list, expected a list of tools"});
  } else {
    faults.push_back({"/tools", "tools is " + kind_of(*tools) + ", expected a list of tools"});
  }
  return nullptr;
}

void append_turn(ChatRow& chat, const std::string& role, const std::string& content, TurnTraining training) {
  chat.messages.push_back({{"role", role}, {"content", content}});
  chat.training.push_back(training);
}

}  // namespace forge
