// Two answers to one prompt, of which people or a judge preferred one. Four shapes:
//
//   {"prompt": …, "chosen": …, "rejected": …}     texts, or lists of messages; without prompt, what both begin with is
//                                                 the prompt (TRL's implicit prompt)
//   {"messages": […], "rejected_response": "…"}   the last turn is the chosen answer (ms-swift); or
//                                                 "rejected_messages": […]
//   {"conversations": […], "chosen": {"from", "value"}, "rejected": {…}}    LLaMA-Factory
//   {"input": {"messages": […], "tools": […]}, "preferred_output": […], "non_preferred_output": […]}   OpenAI
// "margin", a number, may stand beside each of them.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "core/data/rows/formats/format.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

using Answer = std::variant<ChatRow, PairRow>;

AnswersRow two(Answer chosen, Answer rejected) {
  AnswersRow row;
  row.answers.push_back({"chosen", std::move(chosen)});
  row.answers.push_back({"rejected", std::move(rejected)});
  return row;
}

// Appends a list of messages to `start`.
ChatRow continued(ChatRow start, const Json& row, const char* key, RowFaults& faults) {
  const Json& list = *member(row, key);
  if (list.empty())
    faults.push_back({std::string("/") + key, std::string(key) + " is empty, expected messages"});
  append_messages(list, std::string("/") + key, start, faults);
  if (faults.empty() && start.messages.back().value("role", "") != "assistant")
    faults.push_back({std::string("/") + key + "/" + std::to_string(list.size() - 1),
                      std::string(key) + " does not end with an assistant's turn"});
  return start;
}

// Adds a text prompt, next to lists that may repeat it as their first turn.
void add_text_prompt(const Json& row, ChatRow& start) {
  const std::string prompt = row["prompt"].get<std::string>();
  const Json& list = row["chosen"];
  const bool repeats = !list.empty() && std::any_of(list.begin(), list.end(), [&](const Json& turn) {
    return turn.is_object() && turn.value("role", Json()) == "user" &&
           turn.value("content", Json()) == prompt;
  });
  if (!repeats) append_turn(start, "user", prompt);
}

int64_t common_turns(const ChatRow& a, const ChatRow& b) {
  const size_t most = std::min(a.messages.size(), b.messages.size());
  size_t same = 0;
  while (same < most && a.messages[same] == b.messages[same]) ++same;
  return static_cast<int64_t>(same);
}

Row two_chats(ChatRow chosen, ChatRow rejected, RowFaults& faults) {
  if (!faults.empty()) return two(std::move(chosen), std::move(rejected));
  const int64_t same = common_turns(chosen, rejected);
  if (chosen.messages == rejected.messages)
    faults.push_back({"/rejected", "chosen and rejected are the same, expected two answers"});
  chosen.prompt_messages = rejected.prompt_messages = same;
  const auto asks = [&](const ChatRow& chat) {
    return std::ssize(chat.messages) > same &&
           chat.messages[static_cast<size_t>(same)].value("role", "") != "assistant";
  };
  const bool other = asks(chosen) || asks(rejected);
  AnswersRow row = two(std::move(chosen), std::move(rejected));
  row.prompts_differ = other;
  return row;
}

// Returns where the answers of two texts with one prompt begin: after the last speaker's mark that
// both have, as in Anthropic's HH-RLHF; else where they begin to differ, back to a line or a word.
size_t common_prompt(const std::string& a, const std::string& b) {
  const auto differ = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  const std::string_view common(a.data(), static_cast<size_t>(differ - a.begin()));
  constexpr std::string_view kAnswers = "\n\nAssistant:";
  if (const size_t mark = common.rfind(kAnswers); mark != common.npos) return mark + kAnswers.size();
  const size_t blank = common.find_last_of(" \n");
  if (blank == common.npos) return 0;
  return common[blank] == '\n' ? blank + 1 : blank;  // a word keeps its leading space
}

Row two_texts(const Json& row, RowFaults& faults) {
  std::string prompt = text_member(row, "prompt", "", false, faults);
  std::string chosen = text_member(row, "chosen", "", true, faults);
  std::string rejected = text_member(row, "rejected", "", true, faults);
  if (faults.empty() && chosen == rejected)
    faults.push_back({"/rejected", "chosen and rejected are the same, expected two answers"});
  constexpr size_t kPhrase = 16;  // a shorter prompt may match the answers by chance
  if (prompt.empty()) {
    const size_t end = common_prompt(chosen, rejected);
    prompt = chosen.substr(0, end);
    chosen.erase(0, end);
    rejected.erase(0, end);
  } else if (prompt.size() >= kPhrase && starts_with(chosen, prompt) && starts_with(rejected, prompt)) {
    chosen.erase(0, prompt.size());
    rejected.erase(0, prompt.size());
  }
  return two(PairRow{prompt, chosen}, PairRow{prompt, rejected});
}

// {"conversations": […], "chosen": {"from": "gpt", "value": …}, "rejected": …}
Row two_entries(const Json& row, const RowOptions& options, RowFaults& faults) {
  Row start = convert_sharegpt(row, options, faults);
  ChatRow chosen = std::get<ChatRow>(start), rejected = chosen;
  append_entry(row["chosen"], "/chosen", chosen, faults);
  append_entry(row["rejected"], "/rejected", rejected, faults);
  return two_chats(std::move(chosen), std::move(rejected), faults);
}

// {"messages": […], "rejected_response": …}
Row replaced_answer(const Json& row, const RowOptions& options, RowFaults& faults) {
  ChatRow chosen = std::get<ChatRow>(convert_messages(row, options, faults));
  ChatRow rejected{Json::array(), chosen.tools, {}, 0};
  if (const Json* list = member(row, "rejected_messages")) {
    if (expect(list->is_array(), "/rejected_messages", "rejected_messages", *list, "a list",
               faults))
      append_messages(*list, "/rejected_messages", rejected, faults);
    return two_chats(std::move(chosen), std::move(rejected), faults);
  }
  const std::string answer = text_member(row, "rejected_response", "", true, faults);
  if (faults.empty() && chosen.messages.back().value("role", "") != "assistant")
    faults.push_back(
        {"/messages", "messages does not end with an assistant's turn, which rejected_response replaces"});
  if (!faults.empty()) return two(std::move(chosen), std::move(rejected));
  rejected = chosen;
  rejected.messages.back() = {{"role", "assistant"}, {"content", answer}};
  return two_chats(std::move(chosen), std::move(rejected), faults);
}

Row convert_answers(const Json& row, const RowOptions& options, RowFaults& faults);

// {"input": …, "preferred_output": …, "non_preferred_output": …}: read as prompt, chosen and
// rejected.
Row preferred_output(const Json& row, const RowOptions& options, RowFaults& faults) {
  const Json* input = member(row, "input");
  const bool wrapped = input && input->is_object();
  const Json* prompt = wrapped ? member(*input, "messages") : input;
  if (!prompt) {
    faults.push_back({"", "input.messages is missing, expected a list of messages"});
    return two(PairRow{}, PairRow{});
  }
  Json renamed{
      {"prompt", *prompt}, {"chosen", row["preferred_output"]}, {"rejected", row["non_preferred_output"]}};
  for (const char* key : {"system", "tools", "functions"})
    if (const Json* beside = wrapped && member(*input, key) ? member(*input, key) : member(row, key))
      renamed[key] = *beside;
  RowFaults own;
  Row pair = convert_answers(renamed, options, own);
  const std::pair<const char*, std::string> kPlaces[] = {{"/prompt", wrapped ? "/input/messages" : "/input"},
                                                         {"/chosen", "/preferred_output"},
                                                         {"/rejected", "/non_preferred_output"},
                                                         {"/tools", wrapped ? "/input/tools" : "/tools"}};
  for (RowFault& fault : own) {
    for (const auto& [from, to] : kPlaces)
      if (starts_with(fault.pointer, from)) {
        fault.pointer = to + fault.pointer.substr(std::string_view(from).size());
        break;
      }
    faults.push_back(std::move(fault));
  }
  return pair;
}

Row convert_answers(const Json& row, const RowOptions& options, RowFaults& faults) {
  const Json* chosen = member(row, "chosen");
  const Json* rejected = member(row, "rejected");
  if (!chosen && !rejected && member(row, "preferred_output") && member(row, "non_preferred_output"))
    return preferred_output(row, options, faults);
  if (!chosen && !rejected && member(row, "messages")) return replaced_answer(row, options, faults);
  if (!chosen || !rejected || chosen->type() != rejected->type() || chosen->is_string())
    return two_texts(row, faults);
  if (chosen->is_object()) return two_entries(row, options, faults);
  if (!chosen->is_array()) return two_texts(row, faults);
  const Json* prompt = member(row, "prompt");
  ChatRow start = start_chat(row, prompt && prompt->is_array() ? prompt : chosen, faults);
  if (prompt && prompt->is_array())
    append_messages(*prompt, "/prompt", start, faults);
  else if (prompt && prompt->is_string())
    add_text_prompt(row, start);
  ChatRow good = continued(start, row, "chosen", faults), bad = continued(start, row, "rejected", faults);
  return two_chats(std::move(good), std::move(bad), faults);
}

}  // namespace

Row convert_preference(const Json& row, const RowOptions& options, RowFaults& faults) {
  Row result = convert_answers(row, options, faults);
  const Json* margin = member(row, "margin");
  if (!margin) return result;
  if (expect(margin->is_number() && std::isfinite(margin->get<double>()), "/margin", "margin",
             *margin, "a number", faults))
    std::get<AnswersRow>(result).margin = margin->get<double>();
  return result;
}

}  // namespace forge
