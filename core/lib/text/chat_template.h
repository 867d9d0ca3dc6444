#pragma once
// Chat templates: conversations as the text a model was trained on, and the parts of that text to
// train now.
//
//   const ChatTemplate chat = ChatTemplate::parse(*find_chat_template("models/SmolLM2", false), tokens);
//   for (const RenderedSegment& part : chat.render(messages, nullptr, /*add_generation_prompt=*/true)) …
//   const auto example = chat.render_for_training({messages}, TrainTurns::assistant);
//
// Rendering equals transformers' apply_chat_template(tokenize=False) byte for byte. The text is
// later tokenised without adding special tokens: the template writes them itself. Segments tell the
// template's text from the data's text, so that a user who types <|im_end|> ends nothing.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/lib/io/json.h"
#include "core/lib/text/jinja/template.h"

namespace forge {

// Roles of speakers. Templates build control tokens of these words (Phi-4: '<|' + role + '|>'), so
// a role counts as written by the template, wherever it came from.
inline constexpr std::array<std::string_view, 6> kChatRoles{"system",    "developer", "user",
                                                            "assistant", "tool",      "function"};

// Arguments of every template. Variables must have other names.
inline constexpr std::array<std::string_view, 4> kTemplateArguments{"messages", "tools", "documents",
                                                                    "add_generation_prompt"};

// A run of bytes with one origin. Segments may end anywhere between two characters, and words may
// continue across: tokenise the whole text, and use the origin only to decide where control tokens
// are read.
struct RenderedSegment {
  std::string text;
  bool from_template = true;  // else from messages, tools or keyword arguments
  bool generated = false;     // printed inside {% generation %}
  bool supervised = false;    // trained on; set by render_for_training only
};

std::string text_of(const std::vector<RenderedSegment>& segments);

// Named strings that templates use: bos_token, eos_token, pad_token, unk_token …
using SpecialTokens = std::vector<std::pair<std::string, std::string>>;

struct TemplateSource {
  std::string text;
  std::string name;  // for messages: a path, or a bundled name
  Json variables = Json::object();  // further names for the template, as apply_chat_template's keyword arguments
};

struct Conversation {
  Json messages;  // list of {role, content, …}, passed to the template as it is
  Json tools;     // list of JSON schemas, or null
  Json variables =
      Json::object();  // further names for the template, as apply_chat_template's keyword arguments
};

enum class TrainTurns { assistant, last_assistant, all };

class ChatTemplate {
 public:
  // Throws Error(environment) as "name:line: what" for a template that does not parse.
  static ChatTemplate parse(const TemplateSource& source, SpecialTokens special_tokens);

  // Renders messages. Null `tools` means none. Throws Error(data) as "name:line: what", also if a
  // message holds images, audio or video.
  std::vector<RenderedSegment> render(const Json& messages, const Json& tools, bool add_generation_prompt,
                                      const Json& variables = Json::object()) const;

  // Renders the whole conversation and sets `supervised`, exact to the byte. If the template has
  // {% generation %}, its blocks are trained. Otherwise an assistant turn is trained from after its
  // generation prompt to the beginning of the next turn. This is found by rendering prefixes of the
  // conversation. Each must begin the full text, or Error(data) names the turn. `train: false` or
  // `weight: 0` in a message turns it off. Consecutive assistant messages are one turn each. A
  // prompt may open a thought ("<think>\n") that the conversation does not hold (DeepSeek-R1). The
  // answer then continues the prompt word for word if it is the last message, the only one trained
  // and begins with that opening; the text is then longer than the conversation's. TrainTurns::all
  // trains on every byte except those of turned-off messages. Nothing is supervised if the
  // conversation has no trained turn.
  std::vector<RenderedSegment> render_for_training(const Conversation& conversation,
                                                   TrainTurns train_on) const;

  // Renders conversations with tools by `other` from now on, as transformers uses a model's
  // "tool_use".
  void set_tool_use(ChatTemplate other);

  bool marks_generation() const { return template_.marks_generation(); }
  const std::string& name() const { return template_.name(); }
  // Returns the texts that it was parsed from, and its variables. They determine what it renders.
  std::vector<std::string> sources() const;
  // True if a word is in those texts. A name that is not in them changes nothing.
  bool names(const std::string& word) const { return words_.contains(word); }
  const std::set<std::string>& words() const { return words_; }

 private:
  struct Rendering;
  explicit ChatTemplate(jinja::Template parsed) : template_(std::move(parsed)) {}
  jinja::MarkedText render_values(const jinja::Value& messages, const Rendering& rendering,
                                  bool prompt) const;

  jinja::Template template_;
  std::string source_;
  std::set<std::string> words_;
  Json variables_ = Json::object();
  SpecialTokens special_tokens_;
  std::shared_ptr<const ChatTemplate> tool_use_;
};

// Returns the template of a model folder: chat_template.jinja, else tokenizer_config.json's
// chat_template (a string, or a list of named ones, of which "tool_use" serves conversations with
// tools and "default" all others), else chat_template.json. Returns nothing if the folder has none.
// Throws Error(environment) on files that are malformed.
std::optional<TemplateSource> find_chat_template(const std::string& model_dir, bool with_tools);

// Templates for models that bring none, by name: chatml, llama3 … (chat_templates_bundled.cpp).
struct BundledTemplate {
  std::string_view name;
  std::string_view text;
};
const std::vector<BundledTemplate>& bundled_templates();
// Returns a bundled template. Throws Error(job) with the nearest name.
TemplateSource bundled_template(std::string_view name);

}  // namespace forge
