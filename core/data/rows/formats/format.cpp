#include "core/data/rows/formats/format.h"

#include <algorithm>
#include <initializer_list>

#include "core/data/rows/common_columns.h"
#include "core/data/rows/keys.h"
#include "core/job/row_template.h"
#include "core/lib/base/text.h"

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

bool expect(bool good, const std::string& pointer, std::string_view what, const Json& value,
            std::string_view expected, RowFaults& faults) {
  if (!good)
    faults.push_back({pointer, std::string(what) + " is " + kind_of(value) + ", expected " +
                                   std::string(expected)});
  return good;
}

Json without_nulls(Json value) {
  if (value.is_array())
    for (Json& item : value) item = without_nulls(std::move(item));
  if (!value.is_object()) return value;
  Json kept = Json::object();
  for (auto& [key, member] : value.items())
    if (!member.is_null()) kept[key] = without_nulls(std::move(member));
  return kept;
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& item : object.items()) keys.push_back(item.key());
  return keys;
}

std::optional<Json> json_in(const std::string& text) {
  try {
    return parse_json(text, "text", ErrorKind::data);
  } catch (const Error&) {
    return std::nullopt;
  }
}

namespace {

// Returns the likely role of a speaker, by words that data sets use for those who ask, those who
// answer and tools; empty if unknown.
std::string likely_role(const std::string& name) {
  constexpr std::string_view kReturning =
      "ipython observation environment tool_response tool_result function_response api output";
  constexpr std::string_view kAsking =
      "human customer client caller question student patient prompter person visitor buyer q";
  constexpr std::string_view kAnswering =
      "gpt chatgpt agent bot ai model chatbot support answer doctor operator teacher tutor "
      "expert a";
  const std::string word = lower(name);
  if (among(kReturning, word)) return "tool";
  if (among(kAsking, word)) return "user";
  return among(kAnswering, word) ? "assistant" : "";
}

// True if a fault that is counted by this key has been added.
bool is_said(const RowFaults& faults, const std::string& key) {
  return std::any_of(faults.begin(), faults.end(), [&](const RowFault& fault) { return fault.key == key; });
}

// Returns the first key, in the order of the names, that has a text.
std::string key_of(const Json& turn, std::initializer_list<const char*> names) {
  for (const char* name : names)
    for (const auto& [key, value] : turn.items())
      if (value.is_string() && lower(key) == name) return key;
  return "";
}

// Takes a turn's only other text for the half that has no likely name.
void complete_by_rest(const Json& turn, TurnNames& names) {
  std::vector<std::string> others;
  for (const auto& [key, value] : turn.items())
    if (value.is_string() && key != names.speaker && key != names.text) others.push_back(key);
  if (others.size() == 1 && names.speaker.empty() != names.text.empty())
    (names.speaker.empty() ? names.speaker : names.text) = others[0];
}

// Wraps bare schemas, as written for OpenAI's APIs and Anthropic's.
Json wrapped_tool(Json tool, const std::string& pointer, RowFaults& faults) {
  if (tool.is_string()) tool = json_in(tool.get<std::string>()).value_or(tool);
  if (!expect(tool.is_object(), pointer, "a tool", tool, "an object with its name and parameters",
              faults))
    return tool;
  if (member(tool, "function") || !member(tool, "name")) return tool;
  Json function = Json::object();
  for (const auto& [key, value] : tool.items())
    if (key != "type") function[key == "input_schema" ? "parameters" : key] = value;
  return {{"type", "function"}, {"function", std::move(function)}};
}

}  // namespace

TurnNames likely_turn_names(const Json& turn) {
  return {key_of(turn, {"role", "from", "speaker", "author", "sender", "participant", "party", "who", "actor",
                        "character", "speaker_name", "speaker_role", "author_role", "user_type"}),
          key_of(turn, {"content", "value", "text", "message", "utterance", "body", "msg", "says", "said",
                        "speech", "sentence", "transcript"})};
}

std::optional<TurnNames> refuse_turn_names(const Json& turn, const char* speaker, const char* text,
                                           const std::string& pointer, RowFaults& faults) {
  const bool no_speaker = !turn.contains(speaker), no_text = !turn.contains(text);
  if (!no_speaker && !no_text) return std::nullopt;
  TurnNames names = likely_turn_names(turn);
  if (no_speaker && no_text) complete_by_rest(turn, names);
  if (!no_speaker) names.speaker = speaker;
  if (!no_text) names.text = text;
  if (names.speaker.empty() || names.text.empty() || names.speaker == names.text) return std::nullopt;
  std::map<std::string, std::string> columns;
  if (no_speaker) columns[speaker] = names.speaker;
  if (no_text) columns[text] = names.text;
  const std::string has = no_speaker && no_text ? names.speaker + " and " + names.text : columns.begin()->second;
  const std::string expected = no_speaker && no_text ? speaker + std::string(" and ") + text : columns.begin()->first;
  if (const std::string key = "columns " + columns_text(columns); !is_said(faults, key))
    faults.push_back({pointer, "a turn has " + has + ", expected " + expected + "; name them: columns: " + columns_text(columns), key});
  return names;
}

void refuse_speaker(const std::string& name, const char* what, const std::string& pointer,
                    const std::vector<std::string>& expected, RowFaults& faults) {
  const std::string key = std::string(what) + " " + name;
  if (is_said(faults, key)) return;
  // A known name in capitals stands so in all rows, which a misspelling does not.
  const std::string spoken = lower(std::string(trim(name)));
  const std::vector<std::string>& roles = mapped_roles();
  const bool known = spoken != name && std::find(roles.begin(), roles.end(), spoken) != roles.end();
  const std::string role = known ? spoken : likely_role(spoken), meant = role.empty() ? did_you_mean(name, expected) : "";
  std::string way = meant;
  if (meant.empty())
    way = "; say who it is: roles: {" + yaml_name(name) + ": " + (role.empty() ? "user" : role) + "}" +
          (role.empty() ? ", or assistant" : "");
  faults.push_back({pointer, std::string("unknown ") + what + " \"" + name + "\", expected " + join(expected, ", ") + way, key});
}

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

std::string wide_integer(const Json& value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return dump_json(value);
  if (!value.is_structured()) return "";
  for (const auto& item : value.items())
    if (std::string wide = wide_integer(item.value()); !wide.empty()) return wide;
  return "";
}

Json tools_member(const Json& row, RowFaults& faults) {
  const std::string key = member(row, "tools") ? "tools" : "functions";
  const Json* given = member(row, key);
  if (!given || (given->is_string() && trim(given->get_ref<const std::string&>()).empty())) return nullptr;
  Json tools = given->is_string() ? json_in(given->get<std::string>()).value_or(nullptr) : *given;
  if (!tools.is_array()) {
    const std::string found =
        given->is_string() ? "a text that is not a JSON list" : kind_of(tools);
    faults.push_back({"/" + key, key + " is " + found + ", expected a list of tools"});
    return nullptr;
  }
  for (size_t i = 0; i < tools.size(); ++i) {
    const bool written = given->is_string() || tools[i].is_string();  // by somebody, not by a table
    Json tool = wrapped_tool(std::move(tools[i]), "/" + key + "/" + std::to_string(i), faults);
    if (const std::string wide = wide_integer(tool); !wide.empty())
      faults.push_back({"/" + key + "/" + std::to_string(i), key + ": the integer " + wide + " is above 2^63 - 1, which templates cannot write, expected it as a text in quotes"});
    tools[i] = written ? std::move(tool) : without_nulls(std::move(tool));
  }
  return tools.empty() ? Json(nullptr) : tools;
}

ChatRow start_chat(const Json& row, const Json* turns, RowFaults& faults) {
  ChatRow chat{Json::array(), tools_member(row, faults), {}, 0};
  const std::string system = text_member(row, "system", "", false, faults);
  if (trim(system).empty()) return chat;
  const Json* first = turns && turns->is_array() && !turns->empty() ? &turns->front() : nullptr;
  const bool entry = first && first->is_object() && !first->contains("role");
  const Json* role = first && first->is_object() ? member(*first, entry ? "from" : "role") : nullptr;
  if (!role || *role != "system") {
    append_turn(chat, "system", system);
    return chat;
  }
  const Json* said = member(*first, entry ? "value" : "content");
  if (said && said->is_string() && trim(said->get_ref<const std::string&>()) == trim(system)) return chat;
  faults.push_back({"/system", "system differs from the system turn that the conversation begins with, "
                               "expected one of them"});
  return chat;
}

std::optional<bool> label_value(const Json& label) {
  const std::string word = label.is_string() ? lower(label.get<std::string>()) : dump_json(label);
  if (word == "true" || word == "1") return true;
  if (word == "false" || word == "0") return false;
  return std::nullopt;
}

void append_turn(ChatRow& chat, const std::string& role, const std::string& content, TurnTraining training) {
  chat.messages.push_back({{"role", role}, {"content", content}});
  chat.training.push_back(training);
}

}  // namespace forge
