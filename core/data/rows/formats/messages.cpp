// {"messages": [{"role": …, "content": …}, …], "system": …, "tools": […]}: OpenAI's shape, which
// chat templates take unchanged.
#include <algorithm>

#include "core/data/rows/formats/format.h"
#include "core/lib/base/placed_error.h"
#include "core/lib/text/chat_template.h"

namespace forge {
namespace {

const std::vector<std::string> kRoles(kChatRoles.begin(), kChatRoles.end());
// Names under which data sets say whether a turn is trained. OpenAI's fine-tuning files use
// `weight` 0 or 1.
const std::vector<std::string> kFlags{"train",          "training", "loss",       "loss_mask",
                                      "step_loss_mask", "weight",   "loss_weight"};

bool is_text_part(const Json& type) { return type == "text" || type == "input_text" || type == "output_text"; }

// Joins text parts into one text: templates of text models know no parts.
Json joined_parts(const Json& parts, const std::string& pointer, RowFaults& faults) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Json& part = parts[i];
    const std::string place = pointer + "/" + std::to_string(i);
    const Json* type = part.is_object() ? member(part, "type") : nullptr;
    if (type && is_text_part(*type)) {
      text += text_member(part, part.contains("text") ? "text" : "value", place, true, faults);
    } else if (type && type->is_string()) {
      faults.push_back(
          {place, "a part of type \"" + type->get<std::string>() + "\", expected text parts only"});
    } else {
      faults.push_back({place, "content holds " + kind_of(part) + ", expected a part with a type"});
    }
  }
  return text;
}

void check_content(const Json& message, const std::string& role, const std::string& pointer,
                   RowFaults& faults) {
  const Json* content = member(message, "content");
  if (content)
    expect(content->is_string() || content->is_array(), pointer + "/content", "content", *content,
           "a text or text parts", faults);
  else if (!(role == "assistant" && (member(message, "tool_calls") || member(message, "function_call"))))
    faults.push_back(
        {pointer, std::string(message.contains("content") ? "content is null" : "content is missing") +
                      ", expected a text"});
}

void append_message(const Json& message, const std::string& pointer, ChatRow& chat, RowFaults& faults) {
  if (!expect(message.is_object(), pointer, "a message", message, "an object with role and content",
              faults))
    return;
  const bool calls = member(message, "tool_calls") || member(message, "function_call");
  const auto names = calls ? std::nullopt : refuse_turn_names(message, "role", "content", pointer, faults);
  const std::string speaker = names ? names->speaker : "role";
  const size_t faults_before = faults.size();
  const std::string role = text_member(message, speaker, pointer, true, faults);
  if (faults.size() == faults_before && std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end())
    refuse_speaker(role, "role", pointer + "/" + speaker, kRoles, faults);
  if (!names) check_content(message, role, pointer, faults);

  Json turn = Json::object();
  for (const auto& [key, value] : message.items()) {
    const std::string place = pointer + "/" + key;
    if (is_training_flag(key)) continue;
    if (key == "content" && value.is_array()) {
      turn[key] = joined_parts(value, place, faults);
    } else if (key == "tool_calls" && !value.is_null()) {
      turn[key] = tool_calls(value, place, faults);
    } else if (key == "function_call" && !value.is_null()) {
      // This is the form of OpenAI's API from before parallel calls.
      turn["tool_calls"] = Json::array({normalise_tool_call(value, place, faults)});
    } else if (key == "content" || !value.is_null()) {
      // Tables have null for absent members, and templates test `'name' in message`.
      turn[key] = without_nulls(value);
    }
  }
  chat.messages.push_back(std::move(turn));
  chat.training.push_back(training_flag(message, role, pointer, faults));
}

// Returns the arguments as an object, as templates and inference servers use it; OpenAI's API has a
// JSON string.
Json call_arguments(const Json& given, const std::string& place, RowFaults& faults) {
  Json arguments = given;
  if (given.is_string()) {
    try {
      arguments = parse_json(given.get<std::string>(), "arguments", ErrorKind::data);
    } catch (const PlacedError& error) {
      const bool wide = error.problem().find("64 bits") != std::string::npos;
      faults.push_back({place + "/arguments", wide ? "arguments: " + error.problem() + ", expected it as a text in quotes"
                                                   : "arguments is a text that is not JSON (" + error.problem() + "), expected an object"});
      return nullptr;
    }
  }
  if (!arguments.is_object())
    faults.push_back({place + "/arguments", "arguments is " + kind_of(arguments) + ", expected an object"});
  else if (const std::string wide = wide_integer(arguments); !wide.empty())
    faults.push_back({place + "/arguments", "arguments: the integer " + wide + " is above 2^63 - 1, which templates cannot write, expected it as a text in quotes"});
  return arguments;
}

}  // namespace

bool is_training_flag(const std::string& key) {
  return std::find(kFlags.begin(), kFlags.end(), key) != kFlags.end();
}

TurnTraining training_flag(const Json& turn, const std::string& role, const std::string& pointer,
                           RowFaults& faults) {
  TurnTraining training = TurnTraining::by_role;
  for (const std::string& key : kFlags) {
    const Json* value = member(turn, key);
    if (!value) continue;
    const char* expected = value->is_number()
                               ? "0 or 1: a turn is trained or not, examples carry no weights"
                               : "true, false, 0 or 1";
    if (expect(value->is_boolean() || *value == 0 || *value == 1, pointer + "/" + key, key, *value,
               expected, faults))
      training = *value == true || *value == 1 ? TurnTraining::yes : TurnTraining::no;
    if (training == TurnTraining::yes && role != "assistant")
      faults.push_back({pointer + "/" + key,
                        key + " on a turn of \"" + role + "\", expected it on an assistant's turn only"});
  }
  return training;
}

Json tool_calls(const Json& calls, const std::string& pointer, RowFaults& faults, Nulls nulls) {
  if (const auto parsed = calls.is_string() ? json_in(calls.get<std::string>()) : std::nullopt;
      parsed && !parsed->is_string())
    return tool_calls(*parsed, pointer, faults, Nulls::written);
  if (!expect(calls.is_array(), pointer, "tool_calls", calls, "a list of calls", faults))
    return nullptr;
  Json result = Json::array();
  for (size_t i = 0; i < calls.size(); ++i)
    result.push_back(normalise_tool_call(calls[i], pointer + "/" + std::to_string(i), faults, nulls));
  return result;
}

Json normalise_tool_call(const Json& call, const std::string& pointer, RowFaults& faults, Nulls nulls) {
  if (!expect(call.is_object(), pointer, "a tool call", call, "an object", faults)) return nullptr;
  const Json* function = member(call, "function");
  if (function && !expect(function->is_object(), pointer + "/function", "function", *function,
                          "an object", faults))
    return nullptr;
  const std::string place = function ? pointer + "/function" : pointer;
  const Json& body = function ? *function : call;
  text_member(body, "name", place, true, faults);
  const auto kept = [&](const Json& value) { return nulls == Nulls::written ? value : without_nulls(value); };
  // The row's own order and members are kept: a template may print a call whole.
  Json named = Json::object();
  for (const auto& [key, value] : body.items())
    if (!value.is_null() && (function || (key != "id" && key != "type")))
      named[key] = key == "arguments" ? call_arguments(value.is_string() ? value : kept(value), place, faults) : kept(value);
  if (!named.contains("arguments")) named["arguments"] = Json::object();
  Json result = Json::object();
  if (!function) result["type"] = "function";
  for (const auto& [key, value] : call.items())
    if (function && !value.is_null()) result[key] = key == "function" ? named : kept(value);
  if (!function) result["function"] = std::move(named);
  if (const Json* id = member(call, "id"); id && !function) result["id"] = *id;
  return result;
}

void append_messages(const Json& list, const std::string& pointer, ChatRow& chat, RowFaults& faults) {
  for (size_t i = 0; i < list.size(); ++i)
    append_message(list[i], pointer + "/" + std::to_string(i), chat, faults);
}

Row convert_messages(const Json& row, const RowOptions&, RowFaults& faults) {
  const Json* list = member(row, "messages");
  ChatRow chat = start_chat(row, list, faults);
  if (!list) {
    faults.push_back({"", "messages is missing, expected a list of messages"});
  } else if (!list->is_array()) {
    faults.push_back({"/messages", "messages is " + kind_of(*list) + ", expected a list of messages"});
  } else if (list->empty()) {
    faults.push_back({"/messages", "messages is empty, expected at least one message"});
  } else {
    append_messages(*list, "/messages", chat, faults);
  }
  return chat;
}

}  // namespace forge
