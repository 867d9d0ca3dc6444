// {"prompt": …, "completion": …}: two texts, or two lists of messages of which the first is never
// trained.
#include "core/data/rows/formats/format.h"

namespace forge {

Row convert_prompt_completion(const Json& row, const RowOptions&, RowFaults& faults) {
  const Json* prompt = member(row, "prompt");
  const Json* completion = member(row, "completion");
  const bool lists = prompt && completion && prompt->is_array() && completion->is_array();
  if (!lists)
    return PairRow{text_member(row, "prompt", "", true, faults),
                   text_member(row, "completion", "", true, faults)};
  ChatRow chat = start_chat(row, prompt, faults);
  chat.prompt_messages = static_cast<int64_t>(chat.messages.size() + prompt->size());
  if (prompt->empty()) faults.push_back({"/prompt", "prompt is empty, expected at least one message"});
  if (completion->empty())
    faults.push_back({"/completion", "completion is empty, expected at least one message"});
  append_messages(*prompt, "/prompt", chat, faults);
  append_messages(*completion, "/completion", chat, faults);
  return chat;
}

}  // namespace forge
