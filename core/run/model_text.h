#pragma once
// The text side of a model: its tokenizer and chat template, from a Hugging Face folder or a GGUF
// file.
//
//   ModelText text = open_model_text("models/SmolLM2-135M-Instruct.gguf", "auto");
//   std::vector<int32_t> prompt = prompt_ids(text, {{{"role", "user"}, {"content", "Hello"}}});
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/data/examples/example_model.h"
#include "core/job/job.h"
#include "core/lib/io/gguf.h"
#include "core/lib/io/json.h"
#include "core/lib/text/chat_template.h"
#include "core/lib/text/tokenizer.h"
#include "core/model/families/model_spec.h"

namespace forge {

struct ModelText {
  Tokenizer tokenizer;
  std::optional<ChatTemplate> chat_template;  // nothing if the model has none and none was chosen
  ExampleModel model;                         // set by the caller if it read the model's spec
};
ExampleModel example_model(const ModelSpec& spec);

// The chosen template: data.template and data.template_variables, and the tokens that belong to it.
struct TemplateChoice {
  std::string name = "auto";  // "auto" (the model's own), a bundled template, or a .jinja file
  std::map<std::string, Scalar> variables;
  std::vector<std::string> added_tokens;  // model.add_tokens: tokens added to the tokenizer's own
  // For "auto": the folder, such as an adapter's, whose template replaces the model's; empty: the
  // model's.
  std::string folder;
};
TemplateChoice template_choice(const Job& job);

// Opens the tokenizer and chat template of a model. Throws Error(environment) for missing or broken
// files, Error(job) for an unknown template and for variables that the template does not use.
ModelText open_model_text(const std::string& model_path, const TemplateChoice& choice = {});

// Throws Error(job) when the template that data.template names writes control tokens that are not
// tokens of the model. They would be trained as plain pieces of text, which no server of the model
// reads as turns. allow: foreign_template in the job permits it.
void require_own_tokens(const Job& job, const ModelText& text);

// Returns the template with definitions of these variables, used where its caller sets none
// (special tokens in any case): servers of the model then render the text that it was trained on.
std::string with_variables(const std::string& template_text, const std::map<std::string, Scalar>& variables);

// Returns the template that data.template names, if it is not auto.
TemplateSource named_template(const std::string& name);
// Returns the model's own template, if it has one. For conversations with tools it may have
// another.
std::optional<TemplateSource> own_template(const std::string& model_path, bool with_tools);

// Returns the tokenizer that a GGUF's metadata describes.
GgufVocabulary gguf_vocabulary(const Gguf& gguf);

// Returns the ids of the text that the template writes between an assistant's turn and the next:
// the end of that turn, the message `reply` and the beginning of an answer. The end is left out if
// `ended_by`, the token that ended the turn, is it already (−1: no token ended it). The turn itself
// is not rendered, so the drawn tokens stay unchanged. Throws Error(data) when the template raises,
// leaves the turn out or ends it by another token.
std::vector<int32_t> between_turns(const ModelText& text, const Json& messages, const Json& reply, int32_t ended_by);

// Returns the ids of a prompt: a text, which is continued as it is, or a list of messages, which
// the chat template renders up to where the assistant's next answer begins. Only text that the
// template itself wrote can become a control token. For an encoder-decoder the prompt is the text
// that its encoder reads. Throws Error(data) for messages to such a model, and when the template
// raises.
std::vector<int32_t> prompt_ids(const ModelText& text, const Json& prompt);
// A prompt and a text that continues it, tokenised in one piece. `first` is the first token that
// begins inside the text, thus the first that the model is asked for. A token that reaches from the
// prompt into the text is part of the prompt.
struct Continuation {
  std::vector<int32_t> ids;
  int64_t first = 0;  // ids.size() when the text has no token of its own
};
Continuation continue_prompt(const ModelText& text, const Json& prompt, const std::string& continuation);

// Returns the control token that the chat template writes after an assistant's turn, or the added
// token if that is no control token; nothing if it writes none, or does not render such a turn.
std::optional<int32_t> end_of_turn(const ModelText& text);

// Returns the tokens that end an answer: the tokenizer's end of text, `more`, and end_of_turn().
std::vector<int32_t> stop_ids(const ModelText& text, const std::vector<int64_t>& more);

}  // namespace forge
