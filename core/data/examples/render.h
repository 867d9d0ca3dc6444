#pragma once
// Renders a row as the text that the model reads, with the parts of it that are trained, before
// tokenisation.
#include <cstdint>
#include <string>
#include <vector>

#include "core/data/rows/rows.h"
#include "core/job/job.h"
#include "core/lib/base/error.h"
#include "core/lib/text/chat_template.h"
#include "core/lib/text/tokenizer.h"

namespace forge {

struct ByteRange {
  int64_t begin = 0, end = 0;
};

struct RenderedRow {
  struct Run {
    int64_t end = 0;       // one past the run, in bytes of `text`
    bool trusted = false;  // written by the template: only there control tokens are recognised
  };
  std::string text;
  std::vector<Run> runs;
  std::vector<ByteRange> trained;  // ascending; the token rule is in examples.h
  // Parts of trained answers that the template did not write, as "messages[3].reasoning_content":
  // an answer's text, its thought, or a tool call; and "tools" if it names none of the row's tools.
  // Blanks do not count.
  std::vector<std::string> unsaid;
  // True for documents and pairs: the tokenizer's bos (if it adds one) before, its eos after, which
  // is trained. A chat template writes these itself.
  bool document = false;
};

// turns_apart returns the turns that train_on each_assistant makes an example of; up_to_turn
// returns the conversation up to such a turn with nothing else of it trained. A model sees what it
// will see when it answers, though its template writes earlier turns differently once others
// follow. Throws Error(data) for conversations so long that this would take minutes.
std::vector<size_t> turns_apart(const ChatRow& row);
ChatRow up_to_turn(const ChatRow& row, size_t turn);

// Error(data) of a conversation that could be rendered if a user's turn came first.
class AnswerFirst : public Error {
 public:
  AnswerFirst();
};

// Throws Error(data) when the template raises, or cannot be masked; AnswerFirst when that is so
// because the conversation begins with an assistant's turn.
RenderedRow render_chat(const ChatRow& row, const ChatTemplate& chat_template,
                        const ObjectiveConfig& objective);
RenderedRow render_pair(const PairRow& row, const ObjectiveConfig& objective);
RenderedRow render_text(const TextRow& row);
// Returns the documents of a text between its separators (data.separator), without blank ones.
std::vector<std::string> documents_of(const TextRow& row, const std::string& separator);
// Renders what a model is asked: with the generation prompt of the template, if the prompt is a
// conversation. Nothing is trained. Throws as render_chat does.
RenderedRow render_prompt(const PromptRow& row, const ChatTemplate* chat_template);

}  // namespace forge
