#include "core/data/render.h"

#include "core/base/error.h"
#include "core/base/text.h"

namespace forge {
namespace {

bool is_assistant(const Json& message) { return message.value("role", "") == "assistant"; }

// Whether message `index` is trained: what train_on says, unless the turn itself says otherwise. Never one of
// the prompt of a prompt/completion row.
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

// The template engine trains on every assistant turn that does not say `train: false`.
std::vector<RenderedSegment> render_turns(const ChatRow& row, const ChatTemplate& chat_template,
                                          TrainOn train_on) {
  Conversation conversation{row.messages, row.tools};
  const std::vector<bool> trained = trained_messages(row, train_on);
  for (size_t i = 0; i < trained.size(); ++i)
    if (!trained[i] && is_assistant(conversation.messages[i])) conversation.messages[i]["train"] = false;
  return chat_template.render_for_training(conversation, TrainTurns::assistant);
}

// Bytes that a conversation holds, about.
int64_t size_of(const Json& messages) {
  int64_t bytes = 0;
  for (const Json& message : messages)
    if (const auto content = message.find("content"); content != message.end() && content->is_string())
      bytes += static_cast<int64_t>(content->get_ref<const std::string&>().size());
  return bytes;
}

}  // namespace

std::vector<size_t> turns_apart(const ChatRow& row) {
  const std::vector<bool> trained = trained_messages(row, TrainOn::each_assistant);
  std::vector<size_t> turns;
  for (size_t i = 0; i < trained.size(); ++i)
    if (trained[i]) turns.push_back(i);
  // Half of the conversation is rendered and tokenised for each turn, at some 10 µs a message and 5 MB/s.
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

RenderedRow render_chat(const ChatRow& row, const ChatTemplate& chat_template,
                        const ObjectiveConfig& objective) {
  const bool all = objective.type == ObjectiveType::pretrain || objective.train_on == TrainOn::all;
  const std::vector<RenderedSegment> segments =
      all ? chat_template.render(row.messages, row.tools, /*add_generation_prompt=*/false)
          : render_turns(row, chat_template, objective.train_on);
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
  return rendered;
}

RenderedRow render_pair(const PairRow& row, const ObjectiveConfig& objective) {
  RenderedRow rendered;
  rendered.text = row.prompt + row.completion;
  const auto prompt = static_cast<int64_t>(row.prompt.size()),
             size = static_cast<int64_t>(rendered.text.size());
  rendered.runs = {{size, false}};
  rendered.trained = {{objective.train_on == TrainOn::all ? 0 : prompt, size}};
  rendered.document = true;
  return rendered;
}

RenderedRow render_prompt(const PromptRow& row, const ChatTemplate* chat_template) {
  RenderedRow rendered;
  if (row.chat.messages.empty()) {
    rendered.text = row.text;
    rendered.runs = {{static_cast<int64_t>(row.text.size()), false}};
    return rendered;
  }
  for (const RenderedSegment& segment :
       chat_template->render(row.chat.messages, row.chat.tools, /*add_generation_prompt=*/true)) {
    rendered.text += segment.text;
    if (!segment.text.empty())
      rendered.runs.push_back({static_cast<int64_t>(rendered.text.size()), segment.from_template});
  }
  return rendered;
}

RenderedRow render_text(const TextRow& row) {
  const auto size = static_cast<int64_t>(row.text.size());
  return {row.text, {{size, false}}, {{0, size}}, true};
}

}  // namespace forge
