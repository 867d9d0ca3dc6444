#include "core/run/model_text.h"

#include <algorithm>

#include "core/job/job_json.h"
#include "core/job/load.h"
#include "core/lib/base/file.h"
#include "core/lib/base/key_error.h"
#include "core/lib/base/text.h"
#include "core/lib/io/model_file.h"
#include "core/lib/text/add_tokens.h"

namespace forge {
namespace {

constexpr int64_t kLargestTemplate = int64_t{1} << 20;

std::optional<TemplateSource> own_template_of(const std::string& model_path, const Gguf* gguf,
                                              bool with_tools) {
  if (!gguf) return find_chat_template(model_path, with_tools);
  for (const std::string key : {"tokenizer.chat_template.tool_use", "tokenizer.chat_template"}) {
    if (!with_tools && ends_with(key, ".tool_use")) continue;
    const std::string text = gguf->get_string(key, "");
    if (!text.empty()) return TemplateSource{text, model_path + ": " + key};
  }
  return std::nullopt;
}

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

// Refuses variables that the template does not read: they would silently have no effect.
void check_variables(const std::map<std::string, Scalar>& variables, const ChatTemplate& chosen) {
  for (const auto& [variable, value] : variables) {
    if (std::ranges::count(kTemplateArguments, variable) > 0)
      throw KeyError(ErrorKind::job, "data.template_variables",
                     "every conversation gives its own " + variable);
    if (!chosen.names(variable))
      throw KeyError(ErrorKind::job, "data.template_variables",
                     "the chat template (" + chosen.name() + ") uses no " + variable +
                         did_you_mean(variable, {chosen.words().begin(), chosen.words().end()}));
  }
}

std::optional<ChatTemplate> choose_template(const TemplateChoice& choice, const std::string& model_path,
                                            const Gguf* gguf, const SpecialTokens& tokens) {
  const bool own = choice.name == "auto";
  std::optional<TemplateSource> source, tool_use;
  if (own && !choice.folder.empty()) {
    source = find_chat_template(choice.folder, /*with_tools=*/false);
    tool_use = find_chat_template(choice.folder, /*with_tools=*/true);
  } else if (own) {
    source = own_template_of(model_path, gguf, /*with_tools=*/false);
    tool_use = own_template_of(model_path, gguf, /*with_tools=*/true);
  } else {
    source = named_template(choice.name);
  }
  if (!source) return std::nullopt;
  source->variables = json_of(choice.variables);
  ChatTemplate chosen = ChatTemplate::parse(*source, tokens);
  if (tool_use && tool_use->text != source->text) {
    tool_use->variables = source->variables;
    chosen.set_tool_use(ChatTemplate::parse(*tool_use, tokens));
  }
  check_variables(choice.variables, chosen);
  return chosen;
}

// Returns the control words of a text, such as <|im_start|> and <start_of_turn>. [INST] is plain
// text in the models that use it.
std::vector<std::string> control_words(const std::string& text) {
  std::vector<std::string> words;
  for (size_t begin = text.find('<'); begin != text.npos; begin = text.find('<', begin + 1)) {
    const size_t end = text.find_first_of("<> \n", begin + 1);
    if (end == text.npos || text[end] != '>') continue;
    const std::string word = text.substr(begin, end - begin + 1);
    const bool barred = word.size() > 4 && word[1] == '|' && word[word.size() - 2] == '|';
    const bool known = std::find(words.begin(), words.end(), word) != words.end();
    if ((barred || ends_with(word, "_of_turn>")) && !known) words.push_back(word);
  }
  return words;
}

// Returns the control tokens that a template writes around a question and its answer, but that are
// not single tokens of the tokenizer.
std::vector<std::string> foreign_tokens(const ChatTemplate& chat_template, const Tokenizer& tokenizer) {
  const Json asked{{"role", "user"}, {"content", "question"}},
      answered{{"role", "assistant"}, {"content", "answer"}};
  std::string written;
  for (const Json& messages : {Json::array({asked, answered}), Json::array({asked})}) try {
      for (const RenderedSegment& segment : chat_template.render(messages, nullptr, messages.size() == 1))
        if (segment.from_template) written += segment.text;
    } catch (const Error&) {  // it expects other turns; the rows will show which
    }
  std::vector<std::string> foreign;
  for (const std::string& word : control_words(written)) {
    const std::vector<TokenSpan> tokens = tokenizer.encode(word);
    const std::optional<int32_t> id = tokenizer.id_of(word);
    const auto is_whole = [&](const TokenSpan& token) { return id && token.id == *id; };
    if (std::none_of(tokens.begin(), tokens.end(), is_whole)) foreign.push_back(word);
  }
  return foreign;
}

// Returns the names of the bundled templates whose control tokens the model all has.
std::vector<std::string> templates_of(const ModelText& text) {
  std::vector<std::string> names;
  for (const BundledTemplate& bundled : bundled_templates()) {
    const ChatTemplate parsed =
        ChatTemplate::parse(bundled_template(bundled.name), special_tokens(text.tokenizer));
    if (foreign_tokens(parsed, text.tokenizer).empty()) names.emplace_back(bundled.name);
  }
  return names;
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

}  // namespace

TemplateSource named_template(const std::string& name) {
  if (!names_a_template_file(name)) return bundled_template(name);
  std::string text = read_file(name, kLargestTemplate, ErrorKind::environment);
  refuse_git_lfs(text, name, ErrorKind::environment);
  return TemplateSource{std::move(text), name};
}

std::optional<int32_t> end_of_turn(const ModelText& text) {
  if (!text.chat_template) return std::nullopt;
  const std::string answer = "answer";
  Json messages = Json::array(
      {{{"role", "user"}, {"content", "question"}}, {{"role", "assistant"}, {"content", answer}}});
  try {
    std::vector<RenderedSegment> segments = template_of(text).render(messages, nullptr, false);
    std::string whole = text_of(segments);
    size_t begin = whole.rfind(answer);
    if (begin == std::string::npos) return std::nullopt;
    int64_t end = static_cast<int64_t>(begin + answer.size());
    std::optional<int32_t> mark;  // counts if no control token follows
    for (const TokenSpan& token : encode(text, segments)) {
      if (token.begin < end) continue;
      if (text.tokenizer.is_special(token.id)) return token.id;
      if (!mark && text.tokenizer.is_mark(token.id)) mark = token.id;
    }
    return mark;
  } catch (const Error&) {  // a template that expects other roles: rely on the other stop tokens
  }
  return std::nullopt;
}

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
  // BERT vocabularies have [CLS] and [SEP] (as llama.cpp calls them) instead of begin and end
  // tokens.
  vocabulary.bos_id = optional_int(gguf, "tokenizer.ggml.bos_token_id", "tokenizer.ggml.cls_token_id");
  vocabulary.eos_id = optional_int(gguf, "tokenizer.ggml.eos_token_id", "tokenizer.ggml.seperator_token_id");
  vocabulary.unk_id = optional_int(gguf, "tokenizer.ggml.unknown_token_id");
  vocabulary.pad_id = optional_int(gguf, "tokenizer.ggml.padding_token_id");
  vocabulary.add_bos = optional_bool(gguf, "tokenizer.ggml.add_bos_token");
  vocabulary.add_eos = optional_bool(gguf, "tokenizer.ggml.add_eos_token");
  vocabulary.add_space_prefix = optional_bool(gguf, "tokenizer.ggml.add_space_prefix");
  return vocabulary;
}

TemplateChoice template_choice(const Job& job) {
  return {job.data.template_name, job.data.template_variables, job.model.add_tokens, ""};
}

void require_own_tokens(const Job& job, const ModelText& text) {
  const bool named = job.data.template_name != "auto";
  const bool allowed = std::find(job.allow.begin(), job.allow.end(), "foreign_template") != job.allow.end();
  if (!named || allowed || !text.chat_template) return;
  const std::vector<std::string> foreign = foreign_tokens(*text.chat_template, text.tokenizer);
  if (foreign.empty()) return;
  const std::vector<std::string> others = templates_of(text);
  throw KeyError(
      ErrorKind::job, "data.template",
      text.chat_template->name() + " writes " + join(foreign, ", ") +
          ", expected tokens of the model: these would be trained as plain pieces of text",
      (others.empty() ? "use the model's own template (auto)"
                      : "use the model's own (auto), or one of those that fit: " + join(others, ", ")) +
          "; allow: foreign_template trains it as it is");
}

std::optional<TemplateSource> own_template(const std::string& model_path, bool with_tools) {
  std::optional<Gguf> gguf;
  if (model_format(model_path) == ModelFormat::gguf) gguf.emplace(model_path, Data::optional);
  return own_template_of(model_path, gguf ? &*gguf : nullptr, with_tools);
}

std::string with_variables(const std::string& template_text, const std::map<std::string, Scalar>& variables) {
  std::string text;
  const Json values = json_of(variables);
  for (const auto& [name, value] : values.items()) {
    // PEFT's files have no other place that vLLM, llama.cpp and transformers all read.
    const std::string set = "{%- set " + name + " = " + dump_json(value) + " %}";
    // All callers provide bos_token and the like.
    const bool given = ends_with(name, "_token");
    text += (given ? set : "{%- if " + name + " is not defined %}" + set + "{% endif %}") + "\n";
  }
  return text + template_text;
}

ModelText open_model_text(const std::string& model_path, const TemplateChoice& choice) {
  std::optional<Gguf> gguf;
  if (model_format(model_path) == ModelFormat::gguf) gguf.emplace(model_path, Data::optional);
  const auto of_gguf = [&] {
    GgufVocabulary vocabulary = gguf_vocabulary(*gguf);
    add_tokens(vocabulary, choice.added_tokens);
    return load_gguf_tokenizer(vocabulary);
  };
  ModelText text{gguf ? of_gguf() : open_tokenizer_with(model_path, choice.added_tokens), std::nullopt, {}};
  text.chat_template =
      choose_template(choice, model_path, gguf ? &*gguf : nullptr, special_tokens(text.tokenizer));
  return text;
}

std::vector<int32_t> prompt_ids(const ModelText& text, const Json& prompt) {
  if (!text.model.reads_source()) return continue_prompt(text, prompt, "").ids;
  if (!prompt.is_string()) throw Error(ErrorKind::data, "a conversation, but the model is an encoder-decoder, expected a text");
  std::vector<int32_t> ids;
  text.tokenizer.encode_ids(prompt.get_ref<const std::string&>(), ids, {.add_special_tokens = true});
  return ids;
}

ExampleModel example_model(const ModelSpec& spec) {
  ExampleModel model{.embedding_rows = spec.vocab_size};
  if (spec.reads_source()) model.decoder_start_id = spec.decoder_start_id, model.most_positions = spec.learned_positions ? spec.max_position_embeddings : 0;
  return model;
}

Continuation continue_prompt(const ModelText& text, const Json& prompt, const std::string& continuation) {
  const bool is_chat = prompt.is_array();
  std::vector<TextSegment> parts;
  std::vector<RenderedSegment> rendered;  // owns the text that `parts` refers to
  if (is_chat) {
    rendered = template_of(text).render(prompt, nullptr, true);
    for (const RenderedSegment& segment : rendered) parts.push_back({segment.text, segment.from_template});
  } else {
    parts.push_back({prompt.get_ref<const std::string&>(), true});
  }
  size_t border = 0;
  for (const TextSegment& part : parts) border += part.text.size();
  if (!continuation.empty()) parts.push_back({continuation, false});
  std::vector<TokenSpan> tokens = text.tokenizer.encode_segments(parts, /*add_special_tokens=*/!is_chat);
  // The text continues, so its end token is removed.
  if (!is_chat && text.tokenizer.adds_eos() && !tokens.empty()) tokens.pop_back();
  Continuation whole;
  for (const TokenSpan& token : tokens) {
    if (continuation.empty() || token.begin < static_cast<int64_t>(border)) whole.first = static_cast<int64_t>(whole.ids.size()) + 1;
    whole.ids.push_back(token.id);
  }
  return whole;
}

std::vector<int32_t> between_turns(const ModelText& text, const Json& messages, const Json& reply, int32_t ended_by) {
  const std::string turn = "\x02turn\x03";  // replaces the drawn text
  Json all = messages;
  all.push_back({{"role", "assistant"}, {"content", turn}});
  all.push_back(reply);
  std::vector<RenderedSegment> segments = template_of(text).render(all, nullptr, true);
  const size_t begin = text_of(segments).find(turn);
  if (begin == std::string::npos)
    throw Error(ErrorKind::data, "the chat template leaves out an assistant's turn that another message follows");
  size_t drop = begin + turn.size();
  for (RenderedSegment& segment : segments) {
    const size_t here = std::min(drop, segment.text.size());
    segment.text.erase(0, here);
    drop -= here;
  }
  std::vector<int32_t> ids;
  for (const TokenSpan& token : encode(text, segments)) ids.push_back(token.id);
  if (ended_by < 0) return ids;
  if (ids.empty() || ids.front() != ended_by)
    throw Error(ErrorKind::data, "the chat template ends an assistant's turn with another token than " + std::to_string(ended_by) +
                                     ", which ended this one");
  ids.erase(ids.begin());
  return ids;
}

std::vector<int32_t> stop_ids(const ModelText& text, const std::vector<int64_t>& more) {
  std::vector<int32_t> ids(more.begin(), more.end());
  if (text.tokenizer.eos_id()) ids.push_back(*text.tokenizer.eos_id());
  if (std::optional<int32_t> end = end_of_turn(text)) ids.push_back(*end);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace forge
