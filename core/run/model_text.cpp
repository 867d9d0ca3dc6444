#include "core/run/model_text.h"

#include <algorithm>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/config/load.h"
#include "core/io/model_file.h"

namespace forge {
namespace {

constexpr int64_t kLargestTemplate = int64_t{1} << 20;

std::optional<TemplateSource> own_template(const std::string& model_path, const Gguf* gguf, bool with_tools) {
  if (!gguf) return find_chat_template(model_path, with_tools);
  for (const std::string key : {"tokenizer.chat_template.tool_use", "tokenizer.chat_template"}) {
    if (!with_tools && ends_with(key, ".tool_use")) continue;
    const std::string text = gguf->get_string(key, "");
    if (!text.empty()) return TemplateSource{text, model_path + ": " + key};
  }
  return std::nullopt;
}

}  // namespace

TemplateSource named_template(const std::string& name) {
  if (!names_a_template_file(name)) return bundled_template(name);
  return TemplateSource{read_file(name, kLargestTemplate, ErrorKind::environment), name};
}

namespace {

SpecialTokens special_tokens(const Tokenizer& tokenizer) {
  SpecialTokens tokens;
  auto add = [&](const char* name, std::optional<int32_t> id) {
    if (!id) return;
    if (std::optional<std::string> text = tokenizer.token_of(*id)) tokens.emplace_back(name, *text);
  };
  add("bos_token", tokenizer.bos_id());
  add("eos_token", tokenizer.eos_id());
  add("pad_token", tokenizer.pad_id());
  add("unk_token", tokenizer.unk_id());
  return tokens;
}

std::optional<ChatTemplate> choose_template(const std::string& model_path, const std::string& name,
                                            const Gguf* gguf, const SpecialTokens& tokens) {
  if (name != "auto") return ChatTemplate::parse(named_template(name), tokens);
  const std::optional<TemplateSource> source = own_template(model_path, gguf, /*with_tools=*/false);
  if (!source) return std::nullopt;
  ChatTemplate chosen = ChatTemplate::parse(*source, tokens);
  const std::optional<TemplateSource> tool_use = own_template(model_path, gguf, /*with_tools=*/true);
  if (tool_use && tool_use->text != source->text) chosen.set_tool_use(ChatTemplate::parse(*tool_use, tokens));
  return chosen;
}

std::optional<int64_t> optional_int(const Gguf& gguf, const char* key, const char* otherwise = nullptr) {
  if (gguf.has(key)) return gguf.get_int(key, 0);
  return otherwise == nullptr ? std::nullopt : optional_int(gguf, otherwise);
}

std::optional<bool> optional_bool(const Gguf& gguf, const char* key) {
  if (!gguf.has(key)) return std::nullopt;
  return gguf.get_bool(key, false);
}

std::vector<TokenSpan> encode(const ModelText& text, const std::vector<RenderedSegment>& segments) {
  std::vector<TextSegment> parts;
  for (const RenderedSegment& segment : segments) parts.push_back({segment.text, segment.from_template});
  return text.tokenizer.encode_segments(parts);
}

const ChatTemplate& template_of(const ModelText& text) {
  if (!text.chat_template)
    throw Error(ErrorKind::environment, "the model has no chat template")
        .hint("name one with --template, or use --raw");
  return *text.chat_template;
}

// The control token right behind the text of an assistant's turn.
std::optional<int32_t> end_of_turn(const ModelText& text) {
  const std::string answer = "answer";
  Json messages = Json::array(
      {{{"role", "user"}, {"content", "question"}}, {{"role", "assistant"}, {"content", answer}}});
  try {
    std::vector<RenderedSegment> segments = template_of(text).render(messages, nullptr, false);
    std::string whole = text_of(segments);
    size_t begin = whole.rfind(answer);
    if (begin == std::string::npos) return std::nullopt;
    int64_t end = static_cast<int64_t>(begin + answer.size());
    for (const TokenSpan& token : encode(text, segments))
      if (token.begin >= end && text.tokenizer.is_special(token.id)) return token.id;
  } catch (const Error&) {  // a template that wants other roles: the other stop tokens must do
  }
  return std::nullopt;
}

}  // namespace

GgufVocabulary gguf_vocabulary(const Gguf& gguf) {
  GgufVocabulary vocabulary;
  vocabulary.name = gguf.path();
  vocabulary.model = gguf.require_string("tokenizer.ggml.model");
  vocabulary.pre = gguf.get_string("tokenizer.ggml.pre", "");
  vocabulary.tokens = gguf.require_strings("tokenizer.ggml.tokens");
  for (double score : gguf.get_numbers("tokenizer.ggml.scores"))
    vocabulary.scores.push_back(static_cast<float>(score));
  for (int64_t type : gguf.get_ints("tokenizer.ggml.token_type"))
    vocabulary.token_types.push_back(static_cast<int32_t>(type));
  vocabulary.merges = gguf.get_strings("tokenizer.ggml.merges");
  // BERT's vocabularies name [CLS] and [SEP] (llama.cpp's spelling) instead of a begin and an end.
  vocabulary.bos_id = optional_int(gguf, "tokenizer.ggml.bos_token_id", "tokenizer.ggml.cls_token_id");
  vocabulary.eos_id = optional_int(gguf, "tokenizer.ggml.eos_token_id", "tokenizer.ggml.seperator_token_id");
  vocabulary.unk_id = optional_int(gguf, "tokenizer.ggml.unknown_token_id");
  vocabulary.pad_id = optional_int(gguf, "tokenizer.ggml.padding_token_id");
  vocabulary.add_bos = optional_bool(gguf, "tokenizer.ggml.add_bos_token");
  vocabulary.add_eos = optional_bool(gguf, "tokenizer.ggml.add_eos_token");
  vocabulary.add_space_prefix = optional_bool(gguf, "tokenizer.ggml.add_space_prefix");
  return vocabulary;
}

ModelText open_model_text(const std::string& model_path, const std::string& template_name) {
  std::optional<Gguf> gguf;
  if (model_format(model_path) == ModelFormat::gguf) gguf.emplace(model_path, Data::optional);
  ModelText text{gguf ? load_gguf_tokenizer(gguf_vocabulary(*gguf)) : open_tokenizer(model_path),
                 std::nullopt};
  text.chat_template = choose_template(model_path, template_name, gguf ? &*gguf : nullptr,
                                       special_tokens(text.tokenizer));
  return text;
}

std::vector<int32_t> chat_prompt(const ModelText& text, const Json& messages) {
  std::vector<int32_t> ids;
  for (const TokenSpan& token : encode(text, template_of(text).render(messages, nullptr, true)))
    ids.push_back(token.id);
  return ids;
}

std::vector<int32_t> stop_ids(const ModelText& text, const std::vector<int64_t>& more) {
  std::vector<int32_t> ids(more.begin(), more.end());
  if (text.tokenizer.eos_id()) ids.push_back(*text.tokenizer.eos_id());
  if (text.chat_template)
    if (std::optional<int32_t> end = end_of_turn(text)) ids.push_back(*end);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace forge
