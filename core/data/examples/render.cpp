#include "core/data/examples/render.h"

#include <algorithm>
#include <cctype>

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

bool is_assistant(const Json& message) { return message.value("role", "") == "assistant"; }

// Returns whether each message is trained: by train_on, unless the turn itself says otherwise. The
// prompt's messages of a prompt/completion row are never trained.
std::vector<bool> trained_messages(const ChatRow& row, TrainOn train_on) {
  const size_t count = row.messages.size();
  size_t last_assistant = count, after_user = 0;
  for (size_t i = 0; i < count; ++i) {
    if (is_assistant(row.messages[i])) last_assistant = i;
    if (row.messages[i].value("role", "") == "user") after_user = i + 1;
  }
  std::vector<bool> trained(count);
  for (size_t i = static_cast<size_t>(row.prompt_messages); i < count; ++i) {
    if (!is_assistant(row.messages[i])) continue;
    bool by_role = true;
    if (train_on == TrainOn::last_assistant) by_role = i == last_assistant;
    if (train_on == TrainOn::completion && row.prompt_messages == 0) by_role = i >= after_user;
    trained[i] = row.training[i] == TurnTraining::by_role ? by_role : row.training[i] == TurnTraining::yes;
  }
  return trained;
}

// Renders the turns: the template engine trains on every assistant turn that does not say `train:
// false`.
std::vector<RenderedSegment> render_turns(const ChatRow& row, const ChatTemplate& chat_template,
                                          TrainOn train_on) {
  Conversation conversation{row.messages, row.tools};
  const std::vector<bool> trained = trained_messages(row, train_on);
  for (size_t i = 0; i < trained.size(); ++i)
    if (!trained[i] && is_assistant(conversation.messages[i])) conversation.messages[i]["train"] = false;
  return chat_template.render_for_training(conversation, TrainTurns::assistant);
}

std::string without_blanks(std::string_view text) {
  std::string rest;
  for (const char c : text)
    if (!std::isspace(static_cast<unsigned char>(c))) rest += c;
  return rest;
}

// Finds texts that follow one another.
class Written {
 public:
  explicit Written(const std::string& text) : text_(text) {}
  bool holds(std::string_view part) {
    part = trim(part);
    if (part.empty()) return true;
    size_t found = text_.find(part, behind_);
    if (found == std::string::npos) found = text_.find(part);
    if (found != std::string::npos) behind_ = found + part.size();
    if (found != std::string::npos) return true;
    if (dense_.empty()) dense_ = without_blanks(text_);
    return dense_.find(without_blanks(part)) != std::string::npos;
  }

 private:
  const std::string& text_;
  size_t behind_ = 0;
  std::string dense_;
};

std::string trained_text(const RenderedRow& rendered) {
  std::string text;
  for (const ByteRange& range : rendered.trained)
    text.append(rendered.text, static_cast<size_t>(range.begin),
                static_cast<size_t>(range.end - range.begin));
  return text;
}

// Returns the name of a tool, or of the tool that is called; empty if there is none.
std::string tool_name(const Json& tool) {
  const Json& function = tool.is_object() && tool.contains("function") ? tool["function"] : tool;
  const bool named = function.is_object() && function.contains("name") && function["name"].is_string();
  return named ? function["name"].get<std::string>() : "";
}

std::vector<std::string> unsaid_in(const ChatRow& row, const RenderedRow& rendered, TrainOn train_on) {
  const std::vector<bool> trained = trained_messages(row, train_on);
  std::vector<std::string> unsaid;
  Written written(rendered.text);
  std::optional<std::string> answers;  // tool names are short words that may occur elsewhere too
  for (size_t i = 0; i < trained.size(); ++i) {
    if (!trained[i]) continue;
    const Json& message = row.messages[i];
    const auto check = [&](const Json& value, const std::string& name) {
      if (value.is_string() && !written.holds(value.get_ref<const std::string&>()))
        unsaid.push_back("messages[" + std::to_string(i) + "]." + name);
    };
    for (const char* name : {"content", "reasoning_content", "reasoning", "thinking", "thought"})
      if (message.contains(name)) check(message[name], name);
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array()) continue;
    for (size_t call = 0; call < calls->size(); ++call) {
      if (!answers) answers = trained_text(rendered);
      if (answers->find(tool_name((*calls)[call])) == std::string::npos)
        unsaid.push_back("messages[" + std::to_string(i) + "].tool_calls[" + std::to_string(call) + "]");
    }
  }
  return unsaid;
}

bool leaves_out_tools(const Json& tools, const std::string& text) {
  if (!tools.is_array() || tools.empty()) return false;
  return std::none_of(tools.begin(), tools.end(), [&](const Json& tool) {
    const std::string name = tool_name(tool);
    return name.empty() || text.find(name) != std::string::npos;
  });
}

// Returns the approximate size of a conversation in bytes.
int64_t size_of(const Json& messages) {
  int64_t bytes = 0;
  for (const Json& message : messages)
    if (const auto content = message.find("content"); content != message.end() && content->is_string())
      bytes += static_cast<int64_t>(content->get_ref<const std::string&>().size());
  return bytes;
}

// Returns the number of turns that come before the first question or answer.
size_t opening_turns(const Json& messages) {
  size_t turn = 0;
  for (; turn < messages.size(); ++turn)
    if (const std::string role = messages[turn].value("role", ""); role != "system" && role != "developer") break;
  return turn;
}

// Returns the conversation with a user's turn before its first question or answer.
ChatRow after_question(ChatRow row) {
  const auto place = static_cast<std::ptrdiff_t>(opening_turns(row.messages));
  row.messages.insert(row.messages.begin() + place, Json{{"role", "user"}, {"content", "?"}});
  row.training.insert(row.training.begin() + place, TurnTraining::by_role);
  row.prompt_messages += row.prompt_messages > 0;
  return row;
}

// Renders the conversation. If that fails only because an answer comes first, throws AnswerFirst
// in place of the template's words, which speak of roles that alternate or of a mask.
template <class Render>
auto render_in_order(const ChatRow& row, Render render) {
  try {
    return render(row);
  } catch (const Error& error) {
    const size_t first = opening_turns(row.messages);
    if (error.kind() != ErrorKind::data || first == row.messages.size() || !is_assistant(row.messages[first])) throw;
    const auto renders = [&] {
      try {
        render(after_question(row));
        return true;
      } catch (const Error&) {
        return false;
      }
    };
    if (!renders()) throw;
  }
  throw AnswerFirst();
}

}  // namespace

std::vector<size_t> turns_apart(const ChatRow& row) {
  const std::vector<bool> trained = trained_messages(row, TrainOn::each_assistant);
  std::vector<size_t> turns;
  for (size_t i = 0; i < trained.size(); ++i)
    if (trained[i]) turns.push_back(i);
  // On average half the conversation is rendered and tokenised per turn, at about 10 µs per message
  // and 5 MB/s.
  const double seconds =
      static_cast<double>(turns.size()) / 2 *
      (1e-5 * static_cast<double>(trained.size()) + 2e-7 * static_cast<double>(size_of(row.messages)));
  if (seconds > 60)
    throw Error(ErrorKind::data, format_count(static_cast<int64_t>(trained.size())) + " messages with " +
                                     format_count(static_cast<int64_t>(turns.size())) +
                                     " trained turns, which would take minutes as examples of their own")
        .hint("split the conversation, or train on last_assistant");
  return turns;
}

ChatRow up_to_turn(const ChatRow& row, size_t turn) {
  const auto end = row.messages.begin() + static_cast<std::ptrdiff_t>(turn + 1);
  ChatRow part{Json(row.messages.begin(), end), row.tools, {}, row.prompt_messages};
  part.training.assign(turn + 1, TurnTraining::no);
  part.training[turn] = TurnTraining::yes;
  return part;
}

AnswerFirst::AnswerFirst()
    : Error(ErrorKind::data,
            "the conversation begins with an assistant turn, which this template cannot render: leave "
            "that turn out, or put a user's turn before it") {}

RenderedRow render_chat(const ChatRow& row, const ChatTemplate& chat_template,
                        const ObjectiveConfig& objective) {
  const TrainOn train_on = objective.as<LikelihoodConfig>().train_on;
  const bool all = objective.type() == ObjectiveType::pretrain || train_on == TrainOn::all;
  const std::vector<RenderedSegment> segments = render_in_order(row, [&](const ChatRow& chat) {
    return all ? chat_template.render(chat.messages, chat.tools, /*add_generation_prompt=*/false)
               : render_turns(chat, chat_template, train_on);
  });
  RenderedRow rendered;
  for (const RenderedSegment& segment : segments) {
    const auto begin = static_cast<int64_t>(rendered.text.size());
    rendered.text += segment.text;
    const auto end = static_cast<int64_t>(rendered.text.size());
    if (end == begin) continue;
    rendered.runs.push_back({end, segment.from_template});
    if (!all && !segment.supervised) continue;
    if (!rendered.trained.empty() && rendered.trained.back().end == begin)
      rendered.trained.back().end = end;
    else
      rendered.trained.push_back({begin, end});
  }
  rendered.unsaid = unsaid_in(row, rendered, all ? TrainOn::assistant : train_on);
  if (leaves_out_tools(row.tools, rendered.text)) rendered.unsaid.emplace_back("tools");
  return rendered;
}

RenderedRow render_pair(const PairRow& row, const ObjectiveConfig& objective) {
  RenderedRow rendered = render_text({row.prompt + row.completion});
  if (objective.as<LikelihoodConfig>().train_on != TrainOn::all)
    rendered.trained[0].begin = static_cast<int64_t>(row.prompt.size());
  return rendered;
}

RenderedRow render_prompt(const PromptRow& row, const ChatTemplate* chat_template) {
  if (row.chat.messages.empty())
    return {.text = row.text, .runs = {{static_cast<int64_t>(row.text.size()), false}}};
  RenderedRow rendered;
  const std::vector<RenderedSegment> segments = render_in_order(row.chat, [&](const ChatRow& chat) {
    return chat_template->render(chat.messages, chat.tools, /*add_generation_prompt=*/true);
  });
  for (const RenderedSegment& segment : segments) {
    rendered.text += segment.text;
    if (!segment.text.empty())
      rendered.runs.push_back({static_cast<int64_t>(rendered.text.size()), segment.from_template});
  }
  return rendered;
}

std::vector<std::string> documents_of(const TextRow& row, const std::string& separator) {
  std::vector<std::string> documents;
  for (size_t begin = 0; begin <= row.text.size();) {
    const size_t end = std::min(row.text.find(separator, begin), row.text.size());
    std::string document = row.text.substr(begin, end - begin);
    if (!trim(document).empty()) documents.push_back(std::move(document));
    begin = end + separator.size();
  }
  return documents;
}

RenderedRow render_text(const TextRow& row) {
  const auto size = static_cast<int64_t>(row.text.size());
  return {.text = row.text, .runs = {{size, false}}, .trained = {{0, size}}, .document = true};
}

}  // namespace forge
