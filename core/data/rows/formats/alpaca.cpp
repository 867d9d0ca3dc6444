// {"instruction": …, "input": …, "output": …, "system": …, "tools": …, "history": [[question,
// answer], …]}; the answer may be calls of tools, "tool_calls", beside or in place of "output".
#include "core/data/rows/formats/format.h"

namespace forge {
namespace {

void append_history(const Json& history, ChatRow& chat, RowFaults& faults) {
  if (!expect(history.is_array(), "/history", "history", history, "a list of [question, answer]",
              faults))
    return;
  for (size_t i = 0; i < history.size(); ++i) {
    const Json& pair = history[i];
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      faults.push_back(
          {"/history/" + std::to_string(i), "an entry of history, expected two texts: [question, answer]"});
      continue;
    }
    append_turn(chat, "user", pair[0].get<std::string>());
    append_turn(chat, "assistant", pair[1].get<std::string>());
  }
}

// Returns the prompt of the Stanford Alpaca project (prompt_dict in its train.py), for models
// without a chat template.
std::string alpaca_prompt(const std::string& instruction, const std::string& input) {
  if (input.empty())
    return "Below is an instruction that describes a task. Write a response that appropriately completes the "
           "request.\n\n### Instruction:\n" +
           instruction + "\n\n### Response:";
  return "Below is an instruction that describes a task, paired with an input that provides further context. "
         "Write a "
         "response that appropriately completes the request.\n\n### Instruction:\n" +
         instruction + "\n\n### Input:\n" + input + "\n\n### Response:";
}

}  // namespace

Row convert_alpaca(const Json& row, const RowOptions& options, RowFaults& faults) {
  const std::string instruction = text_member(row, "instruction", "", true, faults);
  const std::string input = text_member(row, "input", "", false, faults);
  const Json* calls = member(row, "tool_calls");
  const std::string output = text_member(row, "output", "", !calls, faults);
  const Json* history = member(row, "history");
  const auto asked = [&] { return input.empty() ? instruction : instruction + "\n" + input; };
  if (!options.has_template) {
    if (!text_member(row, "system", "", false, faults).empty() || (history && !history->empty()))
      faults.push_back(
          {"", "system or history in an alpaca row, expected neither: the model has no chat template"});
    if (calls)
      faults.push_back({"/tool_calls", "a call of a tool, expected a text: the model has no chat template"});
    return PairRow{options.source ? asked() : alpaca_prompt(instruction, input), output};
  }
  ChatRow chat = start_chat(row, nullptr, faults);
  if (history) append_history(*history, chat, faults);
  append_turn(chat, "user", asked());
  append_turn(chat, "assistant", output);
  if (calls) chat.messages.back()["tool_calls"] = tool_calls(*calls, "/tool_calls", faults);
  return chat;
}

}  // namespace forge
