#include "core/lib/text/chat_template.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "core/lib/base/text.h"
#include "core/lib/text/turn_spans.h"

namespace forge {

using jinja::MarkedText;
using jinja::Value;

std::string text_of(const std::vector<RenderedSegment>& segments) {
  std::string text;
  for (const RenderedSegment& segment : segments) text += segment.text;
  return text;
}

namespace {

constexpr std::array<std::string_view, 6> kMedia{"image", "image_url",   "input_image",
                                                 "audio", "input_audio", "video"};

void check_parts(const Json& content, const std::string& where) {
  for (size_t i = 0; i < content.size(); ++i) {
    const Json& part = content[i];
    if (!part.is_object() || !part.contains("type") || !part["type"].is_string()) continue;
    const std::string type = part["type"];
    if (std::find(kMedia.begin(), kMedia.end(), type) != kMedia.end())
      throw Error(ErrorKind::data, where + ".content[" + std::to_string(i) + "]: " + type + " is not text")
          .hint("forge trains on text; leave out rows with images, audio or video");
  }
}

void check_messages(const Json& messages) {
  if (!messages.is_array()) data_fault("messages: expected a list, got " + std::string(messages.type_name()));
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].is_object())
      data_fault(turn_name(i) + ": expected an object, got " + messages[i].type_name());
    const auto role = messages[i].find("role");
    if (role == messages[i].end() || !role->is_string())
      data_fault(turn_name(i) + ": expected a role, a string");
    const auto content = messages[i].find("content");
    if (content != messages[i].end() && content->is_array()) check_parts(*content, turn_name(i));
  }
}

// Splits runs where training begins and ends. `spans` are ascending and do not overlap.
std::vector<RenderedSegment> segments_of(const MarkedText& text, const std::vector<Span>& spans) {
  std::vector<RenderedSegment> segments;
  int64_t at = 0;
  size_t span = 0;
  for (const jinja::MarkedRun& run : text.runs) {
    while (at < run.end) {
      while (span < spans.size() && spans[span].end <= at) ++span;
      const bool inside = span < spans.size() && spans[span].begin <= at;
      int64_t end = run.end;
      if (span < spans.size())
        end = std::min(end, inside ? spans[span].end : std::max(spans[span].begin, at + 1));
      segments.push_back({text.bytes.substr(at, end - at), (run.mark & jinja::kFromData) == 0,
                          (run.mark & jinja::kGenerated) != 0, inside});
      at = end;
    }
  }
  return segments;
}

Value value_of(const Json& json) {
  try {
    return jinja::value_of_json(json);
  } catch (const jinja::RenderFault& problem) {
    data_fault(problem.message);
  }
}

Value messages_value(const Json& messages) {
  std::vector<Value> values;
  for (const Json& message : messages) {
    const Value value = value_of(message);
    const std::string role = message["role"];
    if (std::find(kChatRoles.begin(), kChatRoles.end(), role) == kChatRoles.end()) {
      values.push_back(value);
      continue;
    }
    auto trusted = std::make_shared<jinja::Dict>(value.dict());
    trusted->set(Value::text("role"), Value::text(role));
    values.emplace_back(std::move(trusted));
  }
  return Value::list(std::move(values), jinja::SequenceKind::list, true);
}

std::set<std::string> words_of(const std::string& text) {
  std::set<std::string> words;
  const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (auto at = text.begin(); at != text.end();) {
    const auto begin = std::find_if(at, text.end(), in_word);
    at = std::find_if_not(begin, text.end(), in_word);
    if (begin != at) words.emplace(begin, at);
  }
  return words;
}

// Returns the special tokens, then the variables. A variable of the same name replaces a token, as
// in transformers.
jinja::Variables variables_of(const SpecialTokens& special_tokens, const Json& of_template,
                              const Json& of_conversation) {
  jinja::Variables result;
  for (const auto& [name, text] : special_tokens) result.emplace_back(name, Value::text(text));
  for (const Json* variables : {&of_template, &of_conversation}) {
    if (variables->is_null()) continue;
    if (!variables->is_object())
      data_fault("template variables: expected an object, got " + std::string(variables->type_name()));
    for (const auto& [name, value] : variables->items()) {
      if (std::find(kTemplateArguments.begin(), kTemplateArguments.end(), name) != kTemplateArguments.end())
        data_fault("template variables: the name '" + name + "' is taken");
      result.emplace_back(name, value_of(value));
    }
  }
  return result;
}

Value first_messages(const Value& messages, size_t count) {
  const auto& items = messages.items();
  return Value::list({items.begin(), items.begin() + static_cast<std::ptrdiff_t>(count)},
                     jinja::SequenceKind::list, true);
}

}  // namespace

// Values that stay constant while prefixes of one conversation are rendered.
struct ChatTemplate::Rendering {
  Value tools;
  jinja::Variables variables;
};

ChatTemplate ChatTemplate::parse(const TemplateSource& source, SpecialTokens special_tokens) {
  ChatTemplate result(jinja::Template::parse(source.text, source.name));
  result.source_ = source.text;
  result.words_ = words_of(source.text);
  result.variables_ = source.variables;
  result.special_tokens_ = std::move(special_tokens);
  return result;
}

void ChatTemplate::set_tool_use(ChatTemplate other) {
  words_.insert(other.words_.begin(), other.words_.end());
  tool_use_ = std::make_shared<const ChatTemplate>(std::move(other));
}

std::vector<std::string> ChatTemplate::sources() const {
  std::vector<std::string> texts{source_};
  if (!variables_.empty()) texts.push_back(dump_json(variables_));
  if (tool_use_) texts.push_back(tool_use_->source_);
  return texts;
}

MarkedText ChatTemplate::render_values(const Value& messages, const Rendering& rendering, bool prompt) const {
  jinja::Variables variables = rendering.variables;
  variables.emplace_back("messages", messages);
  variables.emplace_back("tools", rendering.tools);
  variables.emplace_back("documents", Value());
  variables.emplace_back("add_generation_prompt", Value(prompt));
  return template_.render(variables, {});
}

std::vector<RenderedSegment> ChatTemplate::render(const Json& messages, const Json& tools,
                                                  bool add_generation_prompt, const Json& variables) const {
  if (tool_use_ && !tools.is_null())
    return tool_use_->render(messages, tools, add_generation_prompt, variables);
  check_messages(messages);
  const Rendering rendering{value_of(tools), variables_of(special_tokens_, variables_, variables)};
  return segments_of(render_values(messages_value(messages), rendering, add_generation_prompt), {});
}

std::vector<RenderedSegment> ChatTemplate::render_for_training(const Conversation& conversation,
                                                               TrainTurns train_on) const {
  if (tool_use_ && !conversation.tools.is_null())
    return tool_use_->render_for_training(conversation, train_on);
  check_messages(conversation.messages);
  const Rendering rendering{value_of(conversation.tools),
                            variables_of(special_tokens_, variables_, conversation.variables)};
  const Value values = messages_value(conversation.messages);
  std::string eos;
  for (const auto& [token, text] : special_tokens_)
    if (token == "eos_token") eos = text;
  const TrainedText trained = find_trained(
      {name(), conversation.messages, train_on, marks_generation(), eos, [&](size_t count, bool prompt) {
         return render_values(first_messages(values, count), rendering, prompt);
       }});
  return segments_of(trained.text, trained.spans);
}

TemplateSource bundled_template(std::string_view name) {
  std::vector<std::string> names;
  for (const BundledTemplate& candidate : bundled_templates()) {
    if (candidate.name == name) return {std::string(candidate.text), std::string(name)};
    names.emplace_back(candidate.name);
  }
  throw Error(ErrorKind::job,
              "no bundled chat template is called '" + std::string(name) + "'" + did_you_mean(name, names))
      .hint("bundled templates are " + join(names, ", ") + "; a .jinja file works too");
}

}  // namespace forge
