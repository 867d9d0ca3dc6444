// {"conversations": [{"from": "human", "value": …}, {"from": "gpt", "value": …}]}: ShareGPT's shape
// and its variants; [{"input": …, "output": …}] as Capybara has it.
#include "core/data/rows/formats/format.h"
#include "core/data/rows/keys.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

struct Speaker {
  const char* role;
  std::string_view names;  // in `from`, with blanks between
};
// All role names seen in public data sets and in other trainers' presets.
constexpr Speaker kSpeakers[] = {
    {"user", "human user prompter"},
    {"assistant", "gpt assistant chatgpt bing bard model bot"},
    {"system", "system"},
    {"tool", "tool observation function_response tool_response"},
    {"call", "function_call tool_call"},
};

// Returns the speaker of this name, in capitals or not; nullptr if none is known.
const Speaker* speaker_of(const std::string& from) {
  for (const Speaker& speaker : kSpeakers)
    if (among(speaker.names, lower(from))) return &speaker;
  return nullptr;
}

void refuse_from(const std::string& from, const std::string& pointer, RowFaults& faults) {
  refuse_speaker(from, "speaker", pointer, {"human", "gpt", "system", "function_call", "observation"}, faults);
}

// Appends a call, which is written as JSON in the value: one {"name", "arguments"} or a list of
// them.
void append_call(const Json& entry, const std::string& entry_pointer, ChatRow& chat, RowFaults& faults) {
  const std::string pointer = entry_pointer + "/value";
  std::optional<Json> calls = json_in(entry["value"].get<std::string>());
  if (!calls) {
    faults.push_back(
        {pointer, "the value of a function call is not JSON, expected {\"name\": …, \"arguments\": …}"});
    return;
  }
  if (!calls->is_array()) calls = Json::array({*calls});
  Json turn{{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array()}};
  for (const Json& call : *calls) turn["tool_calls"].push_back(normalise_tool_call(call, pointer, faults, Nulls::written));
  chat.messages.push_back(std::move(turn));
  chat.training.push_back(training_flag(entry, "assistant", entry_pointer, faults));
}

// Appends a question and its answer in one entry.
void append_exchange(const Json& entry, const std::string& pointer, ChatRow& chat, RowFaults& faults) {
  append_turn(chat, "user", text_member(entry, "input", pointer, true, faults));
  append_turn(chat, "assistant", text_member(entry, "output", pointer, true, faults),
              training_flag(entry, "assistant", pointer, faults));
}

}  // namespace

void append_entry(const Json& entry, const std::string& pointer, ChatRow& chat, RowFaults& faults) {
  if (!expect(entry.is_object(), pointer, "a turn", entry, "an object with from and value", faults))
    return;
  if (!entry.contains("from") && entry.contains("input") && entry.contains("output"))
    return append_exchange(entry, pointer, chat, faults);
  if (const auto names = refuse_turn_names(entry, "from", "value", pointer, faults)) {
    const std::string from = text_member(entry, names->speaker, pointer, false, faults);
    if (!from.empty() && !speaker_of(from)) refuse_from(from, pointer + "/" + names->speaker, faults);
    return;
  }
  const size_t before = faults.size();
  const std::string from = text_member(entry, "from", pointer, true, faults);
  const std::string value = text_member(entry, "value", pointer, true, faults);
  if (faults.size() != before) return;
  const Speaker* speaker = speaker_of(from);
  if (!speaker) return refuse_from(from, pointer + "/from", faults);
  if (std::string(speaker->role) == "call") return append_call(entry, pointer, chat, faults);
  append_turn(chat, speaker->role, value, training_flag(entry, speaker->role, pointer, faults));
}

Row convert_sharegpt(const Json& row, const RowOptions&, RowFaults& faults) {
  const std::string key = member(row, "conversations") || !row.contains("conversation") ? "conversations" : "conversation";
  const Json* list = member(row, key);
  ChatRow chat = start_chat(row, list, faults);
  if (!list) {
    faults.push_back({"", "conversations is missing, expected a list of turns"});
    return chat;
  }
  if (!list->is_array() || list->empty()) {
    faults.push_back({"/" + key, key + " is " + (list->is_array() ? "empty" : kind_of(*list)) +
                                     ", expected a list of turns"});
    return chat;
  }
  // Some files with this key contain OpenAI messages.
  if (list->front().is_object() && list->front().contains("role") && !list->front().contains("from")) {
    append_messages(*list, "/" + key, chat, faults);
    return chat;
  }
  for (size_t i = 0; i < list->size(); ++i)
    append_entry((*list)[i], "/" + key + "/" + std::to_string(i), chat, faults);
  return chat;
}

}  // namespace forge
