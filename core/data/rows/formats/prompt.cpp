// {"prompt": …}: a prompt that a model is to answer; a text, or a list of messages that does not
// end with its own turn.
#include "core/data/rows/formats/format.h"

namespace forge {

Row convert_prompt(const Json& row, const RowOptions&, RowFaults& faults) {
  PromptRow result{{Json::array(), tools_member(row, faults), {}, 0}, ""};
  const Json* prompt = member(row, "prompt");
  if (!prompt || !prompt->is_array()) {
    result.text = text_member(row, "prompt", "", true, faults);
    if (faults.empty() && result.text.empty())
      faults.push_back({"/prompt", "prompt is empty, expected a text"});
    return result;
  }
  if (prompt->empty()) faults.push_back({"/prompt", "prompt is empty, expected at least one message"});
  append_messages(*prompt, "/prompt", result.chat, faults);
  if (!faults.empty() || prompt->empty()) return result;
  if (result.chat.messages.back().value("role", "") == "assistant")
    faults.push_back({"/prompt/" + std::to_string(prompt->size() - 1),
                      "the prompt ends with an assistant's turn, expected a turn that it answers"});
  result.chat.prompt_messages = static_cast<int64_t>(prompt->size());
  return result;
}

}  // namespace forge
