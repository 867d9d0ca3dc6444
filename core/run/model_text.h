#pragma once
// The words of a model: its tokenizer and chat template, from a Hugging Face folder or a GGUF file.
//
//   ModelText text = open_model_text("models/SmolLM2-135M-Instruct.gguf", "auto");
//   std::vector<int32_t> prompt = chat_prompt(text, {{{"role", "user"}, {"content", "Hello"}}});
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/config/job.h"
#include "core/data/examples/example_model.h"
#include "core/families/model_spec.h"
#include "core/io/gguf.h"
#include "core/io/json.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"

namespace forge {

struct ModelText {
  Tokenizer tokenizer;
  std::optional<ChatTemplate> chat_template;  // nothing when the model brings none and none was asked for
  ExampleModel model;                         // set by the caller that read its spec; else nothing is known
};
ExampleModel example_model(const ModelSpec& spec);

// data.template and data.template_variables, and the tokens that go with them.
struct TemplateChoice {
  std::string name = "auto";  // the model's own; or the name of a bundled template, or a .jinja file
  std::map<std::string, Scalar> variables;
  std::vector<std::string> added_tokens;  // model.add_tokens: what the tokenizer has besides
  std::string folder;  // auto: take the template of this folder (an adapter's) instead of the model's; empty: the model's
};
TemplateChoice template_choice(const Job& job);

// Throws Error(environment) for missing or broken files, Error(job) for an unknown template and for variables that the
// template does not use.
ModelText open_model_text(const std::string& model_path, const TemplateChoice& choice = {});

// Throws Error(job) when the template that data.template names writes control tokens that are no tokens of the model's:
// they would be trained as plain pieces of text, which no server of the model reads as turns. allow: foreign_template in
// the job lets it pass.
void require_own_tokens(const Job& job, const ModelText& text);

// A template that sets these variables where its caller does not (special tokens in any case): what serves a model then
// renders what it was trained on.
std::string with_variables(const std::string& template_text, const std::map<std::string, Scalar>& variables);

// The template that data.template names, when it is not auto.
TemplateSource named_template(const std::string& name);
// The model's own, if it has one; for conversations with tools it may have another.
std::optional<TemplateSource> own_template(const std::string& model_path, bool with_tools);

// What a GGUF's metadata says of its tokenizer.
GgufVocabulary gguf_vocabulary(const Gguf& gguf);

// The ids of a conversation up to where the assistant's next answer begins; only what the template itself
// wrote can become a control token. Throws Error(data) when the template raises.
std::vector<int32_t> chat_prompt(const ModelText& text, const Json& messages);

// What the template writes between an assistant's turn and the next: the end of that turn, unless the token `ended_by` is it
// already (−1: nothing ended it), the message `reply` and what begins an answer. The turn itself is not rendered, so whatever was
// drawn stays as it was. Throws Error(data) when the template raises, leaves the turn out or ends it by another token.
std::vector<int32_t> between_turns(const ModelText& text, const Json& messages, const Json& reply, int32_t ended_by);

// A prompt of a row: a text, which is continued as it is, or a list of messages, which go through the chat template. Of an
// encoder-decoder: a text as its encoder reads it; throws Error(data) for messages.
std::vector<int32_t> prompt_ids(const ModelText& text, const Json& prompt);
// The same with a text behind it, tokenised in one piece. `first` is the first token that begins inside the text: what the
// model is asked for. A token that reaches from the prompt into the text is part of the prompt.
struct Continuation {
  std::vector<int32_t> ids;
  int64_t first = 0;  // ids.size() when the text has no token of its own
};
Continuation continue_prompt(const ModelText& text, const Json& prompt, const std::string& continuation);

// The control token that the chat template writes behind an assistant's turn; nothing where it writes none, or has no such turn.
std::optional<int32_t> end_of_turn(const ModelText& text);

// The tokens that end an answer: the tokenizer's end of text, `more`, and the control token that the chat
// template writes behind an assistant's turn.
std::vector<int32_t> stop_ids(const ModelText& text, const std::vector<int64_t>& more);

}  // namespace forge
