#include "core/data/rows/checks.h"

#include <algorithm>
#include <cctype>
#include <span>

#include "core/data/rows/keys.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

bool is(const Turn& turn, const char* role) { return turn.role == role; }
bool blank(std::string_view text) { return trim(text).empty(); }

// A check of single turns: `find` returns what is wrong with one; empty if nothing is.
template <std::string (*find)(const Turn& turn)>
void in_turns(const RowText& text, const Emit& emit) {
  for (const Turn& turn : text)
    if (const std::string detail = find(turn); !detail.empty()) emit(turn.pointer, detail);
}

std::string empty_answer(const Turn& turn) {
  const bool empty = is(turn, "assistant") && blank(turn.text) && turn.calls == 0;
  return empty ? "the answer has no text" : "";
}

// Finds texts that tables write for a missing value. A question that ends in a line of one of the
// first list is a first column to which a second one was joined.
std::string missing_value(const Turn& turn) {
  constexpr std::string_view kAlsoInLines = "nan -nan nat <na> #n/a #null!";
  constexpr std::string_view kOthers =
      "none null nil n/a na #na undefined none. #ref! #value! #name? #div/0!";
  const std::string whole(trim(turn.text)),
      last(trim(std::string_view(turn.text).substr(turn.text.rfind('\n') + 1)));
  if (among(kAlsoInLines, lower(whole)) || among(kOthers, lower(whole)))
    return "the whole text is \"" + whole + "\": a value that was missing in a table?";
  if (is(turn, "user") && among(kAlsoInLines, lower(last)))
    return "the last line is \"" + last + "\": a value that was missing in a table?";
  return "";
}

std::string empty_prompt(const Turn& turn) {
  return is(turn, "user") && blank(turn.text) ? "the question has no text" : "";
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t i = 0; i < text.size();) {
    const auto blank_at = [&](size_t at) { return std::isspace(static_cast<unsigned char>(text[at])) != 0; };
    while (i < text.size() && blank_at(i)) ++i;
    const size_t begin = i;
    while (i < text.size() && !blank_at(i)) ++i;
    if (i > begin) words.push_back(text.substr(begin, i - begin));
  }
  return words;
}

// Finds a phrase of up to 20 words said at least five times in a row, 20 words in all.
std::string looping_answer(const Turn& turn) {
  if (!is(turn, "assistant")) return "";
  const auto words = words_of(turn.text);
  for (size_t period = 1; period <= 20; ++period) {
    size_t run = 0, longest = 0;
    for (size_t i = period; i < words.size(); ++i)
      longest = std::max(longest, run = words[i] == words[i - period] ? run + 1 : 0);
    if (longest >= std::max<size_t>(20, 4 * period))
      return "a phrase of " + std::to_string(period) + " words comes " +
             std::to_string(longest / period + 1) + " times in a row";
  }
  return "";
}

void copied_prompt(const RowText& text, const Emit& emit) {
  for (size_t i = 1; i < text.size(); ++i)
    if (is(text[i], "assistant") && is(text[i - 1], "user") && trim(text[i].text).size() >= 12 &&
        trim(text[i].text) == trim(text[i - 1].text))
      emit(text[i].pointer, "the answer is the question, word for word");
}

void role_order(const RowText& text, const Emit& emit) {
  for (size_t i = 1; i < text.size(); ++i)
    if (text[i].role == text[i - 1].role && (is(text[i], "user") || is(text[i], "assistant")))
      emit(text[i].pointer, "two turns of " + text[i].role + " in a row");
}

void answer_first(const RowText& text, const Emit& emit) {
  for (const Turn& turn : text) {
    if (is(turn, "system")) continue;
    if (is(turn, "assistant")) emit(turn.pointer, "the conversation begins with an answer");
    return;
  }
}

void late_system(const RowText& text, const Emit& emit) {
  for (size_t i = 1; i < text.size(); ++i)
    if (is(text[i], "system")) emit(text[i].pointer, "a system turn that is not the first");
}

void unanswered(const RowText& text, const Emit& emit) {
  if (!text.empty() && is(text.back(), "user")) emit(text.back().pointer, "the last turn is a question");
}

// True for a tool's result. OpenAI's role was "function" before calls were parallel.
bool is_result(const Turn& turn) { return is(turn, "tool") || is(turn, "function"); }

void orphan_result(const RowText& text, const Emit& emit) {
  for (size_t i = 0; i < text.size(); ++i)
    if (is_result(text[i]) && (i == 0 || (!is_result(text[i - 1]) && text[i - 1].calls == 0)))
      emit(text[i].pointer, "a tool's result without a call before it");
}

// Emits results that name a call which the turn before them did not make.
void strange_result(const RowText& text, const Emit& emit) {
  const Turn* calling = nullptr;
  for (const Turn& turn : text) {
    if (!is_result(turn)) calling = turn.ids.empty() ? nullptr : &turn;
    const bool named = is_result(turn) && calling && !turn.ids.empty();
    if (named && std::find(calling->ids.begin(), calling->ids.end(), turn.ids[0]) == calling->ids.end())
      emit(turn.pointer, "a tool's result for the call " + turn.ids[0] + ", and the calls before it are " + join(calling->ids, ", "));
  }
}

void open_call(const RowText& text, const Emit& emit) {
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i].calls == 0) continue;
    int64_t results = 0;
    for (size_t k = i + 1; k < text.size() && is_result(text[k]); ++k) ++results;
    if (results == 0)
      emit(text[i].pointer, "a tool call that no result follows");
    else if (results < text[i].calls)
      emit(text[i].pointer, format_count(text[i].calls) + " tool calls that " + format_count(results) + (results == 1 ? " result follows" : " results follow"));
  }
}

// Returns the first of these texts that a turn has; empty if it has none.
std::string first_in(const Turn& turn, std::span<const char* const> needles) {
  for (const char* needle : needles)
    if (turn.text.find(needle) != std::string::npos) return needle;
  return "";
}

// Returns the first of these texts that a turn has after what it is; empty if it has none.
std::string find_any(const Turn& turn, std::span<const char* const> needles,
                     const std::string& what) {
  const std::string found = first_in(turn, needles);
  return found.empty() ? "" : what + " \"" + found + "\"";
}

std::string control_tokens(const Turn& turn) {
  static constexpr const char* kTokens[] = {"<|im_start|>",  "<|im_end|>",          "<|endoftext|>",
                                            "<|eot_id|>",    "<|begin_of_text|>",   "<|user|>",
                                            "<|assistant|>", "<|system|>",          "[INST]",
                                            "[/INST]",       "<start_of_turn>",     "<end_of_turn>",
                                            "<<SYS>>",       "<|start_header_id|>", "<|end|>",
                                            "</s>"};
  const std::string token = first_in(turn, kTokens);
  return token.empty() ? "" : control_token_detail(turn, token);
}

std::string broken_text(const Turn& turn) {
  // U+FFFD, and UTF-8 that was read as Latin-1: é, ’, “, –, and ä.
  static constexpr const char* kBroken[] = {"\xEF\xBF\xBD",
                                            "\xC3\x83\xC2\xA9",
                                            "\xC3\x83\xC2\xA4",
                                            "\xC3\xA2\xE2\x82\xAC\xE2\x84\xA2",
                                            "\xC3\xA2\xE2\x82\xAC\xC5\x93",
                                            "\xC3\xA2\xE2\x82\xAC\xE2\x80\x9C"};
  return find_any(turn, kBroken, "characters of a wrong decoding:");
}

std::string control_characters(const Turn& turn) {
  for (const char c : turn.text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 || byte == 0x7F) && c != '\n' && c != '\t' && c != '\r')
      return "the control character " + std::to_string(byte);
  }
  return "";
}

std::string hidden_characters(const Turn& turn) {
  // Zero width: space, byte order mark. Direction: embeddings, overrides, isolates.
  static constexpr const char* kHidden[] = {"\u200B", "\uFEFF", "\u202A", "\u202B", "\u202D",
                                            "\u202E", "\u2066", "\u2067", "\u2068"};
  return first_in(turn, kHidden).empty() ? "" : "an invisible character (zero width or direction)";
}

bool key_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-'; }

// Prefixes of keys and the minimum number of characters after them, from the issuers' public
// formats.
struct KeyShape {
  const char* prefix;
  size_t least;
  const char* what;
};
constexpr KeyShape kKeys[] = {{"sk-ant-", 24, "an Anthropic key"},   {"sk-", 20, "an OpenAI key"},
                              {"AKIA", 16, "an AWS key id"},         {"ASIA", 16, "an AWS key id"},
                              {"ghp_", 30, "a GitHub token"},        {"gho_", 30, "a GitHub token"},
                              {"github_pat_", 30, "a GitHub token"}, {"glpat-", 18, "a GitLab token"},
                              {"hf_", 30, "a Hugging Face token"},   {"AIza", 30, "a Google key"},
                              {"xoxb-", 20, "a Slack token"},        {"xoxp-", 20, "a Slack token"},
                              {"sk_live_", 20, "a Stripe key"},      {"npm_", 30, "an npm token"},
                              {"pypi-", 40, "a PyPI token"}};

// Returns a word of this shape with both letters and digits; dash-separated phrases do not count.
// Empty if there is none.
std::string key_in(const std::string& text, const KeyShape& shape) {
  const std::string_view prefix = shape.prefix;
  for (size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at + 1)) {
    if (at > 0 && key_character(text[at - 1])) continue;
    size_t end = at + prefix.size();
    bool digit = false, letter = false;
    for (; end < text.size() && key_character(text[end]); ++end) {
      digit |= std::isdigit(static_cast<unsigned char>(text[end])) != 0;
      letter |= std::isalpha(static_cast<unsigned char>(text[end])) != 0;
    }
    if (end - at - prefix.size() >= shape.least && digit && letter)
      return text.substr(at, end - at);
  }
  return "";
}

std::string api_key(const Turn& turn) {
  for (const KeyShape& shape : kKeys)
    if (const std::string found = key_in(turn.text, shape); !found.empty())
      return "looks like " + std::string(shape.what) + ": " + masked(found);
  return "";
}

std::string private_key(const Turn& turn) {
  const size_t begin = turn.text.find("-----BEGIN "), key = turn.text.find("PRIVATE KEY-----");
  const bool found =
      begin != std::string::npos && key != std::string::npos && begin < key && key - begin < 40;
  return found ? "a private key in PEM form" : "";
}

std::string password_url(const Turn& turn) {
  for (size_t at = turn.text.find("://"); at != std::string::npos; at = turn.text.find("://", at + 3)) {
    const size_t end = turn.text.find_first_of(" \t\r\n\"'<>/", at + 3);
    const std::string_view authority = std::string_view(turn.text).substr(
        at + 3, (end == std::string::npos ? turn.text.size() : end) - at - 3);
    const size_t sign = authority.find('@'), colon = authority.find(':');
    if (sign != std::string_view::npos && colon != std::string_view::npos && colon + 1 < sign)
      return "a URL with a password: " + masked(authority.substr(0, colon));
  }
  return "";
}

std::string refusal(const Turn& turn) {
  static constexpr const char* kPhrases[] = {"As an AI language model",   "as an AI language model",
                                             "I cannot assist with that", "I can't assist with that",
                                             "I'm sorry, but I can't",    "I cannot fulfill"};
  return is(turn, "assistant") ? find_any(turn, kPhrases, "the answer says") : "";
}

std::string open_code(const Turn& turn) {
  int64_t fences = 0;
  for (size_t at = turn.text.find("```"); at != std::string::npos; at = turn.text.find("```", at + 3)) ++fences;
  const bool open = is(turn, "assistant") && fences % 2 == 1;
  return open ? "a code block begins and never ends: was the answer cut?" : "";
}

std::string html_entities(const Turn& turn) {
  static constexpr const char* kEntities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;", "&nbsp;"};
  return find_any(turn, kEntities, "an HTML entity");
}

std::string answer_blanks(const Turn& turn) {
  const bool wide = is(turn, "assistant") && !blank(turn.text) && trim(turn.text).size() + 8 < turn.text.size();
  return wide ? "more than eight blanks around the answer" : "";
}

constexpr Severity kFault = Severity::fault, kWarning = Severity::warning, kNote = Severity::note;

constexpr Check kChecks[] = {
    {"unusable", kFault, "rows that cannot be read or have another shape"},
    {"unread_key", kNote, "columns that are ignored"},
    {"trains_nothing", kFault, "rows without a trained token"},
    {"private_key", kWarning, "private keys in the text", in_turns<private_key>},
    {"api_key", kWarning, "texts that look like keys of services", in_turns<api_key>},
    {"password_url", kWarning, "URLs with passwords", in_turns<password_url>},
    {"overlap", kWarning, "evaluation rows that are also training rows", nullptr,
     "eval_loss measures how well they were memorised"},
    {"near_overlap", kWarning, "evaluation rows almost equal to training rows"},
    {"duplicate", kWarning, "rows that repeat an earlier row"},
    {"near_duplicate", kNote, "rows almost equal to an earlier row"},
    {"conflict", kNote, "the same prompt with a different answer"},
    {"repeated_answer", kNote, "an answer that many different prompts get"},
    {"cut", kWarning, "rows longer than the limits, which lose their end or beginning"},
    {"dropped", kWarning, "rows longer than the limits that are left out"},
    {"unsaid", kWarning, "answers that the chat template writes without a part: a thought, a tool call"},
    {"unsaid_tools", kWarning, "rows whose tools the chat template does not write", nullptr,
     "the model learns to call tools that it is not told about"},
    {"unknown", kWarning, "rows with text that becomes the tokenizer's unknown token", nullptr,
     "the model never sees that text"},
    {"bare_prompt", kWarning, "prompts that are plain texts, which the model sees without its chat template", nullptr,
     "an instruct model expects turns; data.prompt_as: user makes each a user turn, text silences this"},
    {"endless", kWarning, "answers that the chat template does not end with a token such as eos_token", nullptr,
     "the model does not learn where an answer ends"},
    {"glued", kWarning, "answers whose first letters share a token with the prompt and are not trained", nullptr,
     "begin completions with the space, or end prompts before it"},
    {"empty_answer", kWarning, "answers without text", in_turns<empty_answer>},
    {"empty_prompt", kWarning, "questions without text", in_turns<empty_prompt>},
    {"missing_value", kWarning, "texts that only say NaN, None, null or another word for no value",
     in_turns<missing_value>},
    {"looping_answer", kWarning, "answers that repeat themselves", in_turns<looping_answer>},
    {"copied_prompt", kWarning, "answers that repeat the question", copied_prompt},
    {"role_order", kWarning, "consecutive turns of one role", role_order},
    {"answer_first", kWarning, "conversations that begin with an answer", answer_first},
    {"late_system", kWarning, "system turns after the first turn", late_system},
    {"unanswered", kNote, "conversations that end with a question", unanswered},
    {"orphan_result", kWarning, "tool results without a call", orphan_result},
    {"strange_result", kWarning, "tool results for another call", strange_result},
    {"open_call", kNote, "tool calls without a result", open_call},
    {"control_tokens", kWarning, "control tokens written out as text; they are trained as plain text",
     in_turns<control_tokens>},
    {"broken_text", kWarning, "text that was decoded wrongly", in_turns<broken_text>},
    {"control_characters", kWarning, "control characters in the text",
     in_turns<control_characters>},
    {"hidden_characters", kWarning, "invisible characters", in_turns<hidden_characters>},
    {"refusal", kNote, "answers that refuse", in_turns<refusal>},
    {"open_code", kNote, "code blocks that never end", in_turns<open_code>},
    {"html_entities", kNote, "HTML entities where characters should be", in_turns<html_entities>},
    {"answer_blanks", kNote, "answers with blanks around them", in_turns<answer_blanks>},
};

std::string text_member_of(const Json& message) {
  const auto found = message.find("content");
  if (found == message.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  std::string all;
  if (found->is_array())
    for (const Json& part : *found)
      if (part.is_object() && part.contains("text") && part["text"].is_string()) all += part["text"];
  return all;
}

// Returns the ids of a message's tool calls, or of the call that it answers.
std::vector<std::string> call_ids_of(const Json& message) {
  std::vector<std::string> ids;
  const auto add = [&](const Json& object, const char* key) {
    if (const auto id = object.find(key); id != object.end() && id->is_string()) ids.push_back(id->get<std::string>());
  };
  add(message, "tool_call_id");
  if (const auto calls = message.find("tool_calls"); calls != message.end())
    for (const Json& call : *calls) add(call, "id");
  return ids;
}

}  // namespace

const char* name_of(Severity severity) {
  return severity == Severity::fault ? "fault" : severity == Severity::warning ? "warning" : "note";
}

std::span<const Check> data_checks() { return kChecks; }

size_t check_named(std::string_view name) {
  for (size_t i = 0; i < std::size(kChecks); ++i)
    if (name == kChecks[i].name) return i;
  FORGE_CHECK(false, "no check is called " << name);
}

std::string control_token_detail(const Turn& turn, std::string_view token) {
  return "the text says \"" + std::string(token) + "\"" +
         (turn.role == "text" ? "; data.separator makes it the border of two documents" : "");
}

std::string masked(std::string_view secret) {
  return std::string(secret.substr(0, 4)) + "… (" + std::to_string(secret.size()) + " characters)";
}

RowText text_of(const Row& row) {
  RowText text;
  if (const auto* chat = std::get_if<ChatRow>(&row)) {
    for (size_t i = 0; i < chat->messages.size(); ++i) {
      const Json& message = chat->messages[i];
      const std::string index = "/" + std::to_string(i);
      text.push_back({message.value("role", ""), text_member_of(message), "/messages" + index + "/content",
                      message.contains("tool_calls") ? static_cast<int64_t>(message["tool_calls"].size()) : 0, call_ids_of(message)});
    }
  } else if (const auto* pair = std::get_if<PairRow>(&row)) {
    text = {{"user", pair->prompt, "/prompt"}, {"assistant", pair->completion, "/completion"}};
  } else if (const auto* document = std::get_if<TextRow>(&row)) {
    text = {{"text", document->text, "/text"}};
  } else if (const auto* prompt = std::get_if<PromptRow>(&row)) {
    text = prompt->chat.messages.empty() ? RowText{{"user", prompt->text, "/prompt"}} : text_of(prompt->chat);
  } else if (const auto* answers = std::get_if<AnswersRow>(&row)) {
    for (const AnswersRow::Answer& answer : answers->answers)
      for (Turn& turn : text_of(std::visit([](const auto& kind) { return Row(kind); }, answer.row)))
        text.push_back(std::move(turn));
  }
  return text;
}

std::vector<CheckedText> checked_texts(const Row& row) {
  const auto* answers = std::get_if<AnswersRow>(&row);
  if (!answers) return {{text_of(row)}};
  std::vector<CheckedText> texts;
  for (const AnswersRow::Answer& answer : answers->answers) {
    const auto* chat = std::get_if<ChatRow>(&answer.row);
    const size_t prompt = chat ? static_cast<size_t>(chat->prompt_messages) : 1;
    texts.push_back({text_of(std::visit([](const auto& kind) { return Row(kind); }, answer.row)),
                     texts.empty() ? 0 : prompt});
  }
  return texts;
}

}  // namespace forge
