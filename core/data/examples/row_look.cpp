#include "core/data/examples/row_look.h"

#include <algorithm>
#include <optional>

#include "core/data/rows/checks.h"
#include "core/lib/base/hash.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

uint64_t short_hash(std::string_view text) {
  return text.empty() ? 0 : std::stoull(hash_hex(text).substr(0, 16), nullptr, 16);
}

// Returns the calls of a conversation's turns, and the tools that it offers.
std::string calls_of(const ChatRow& chat) {
  std::string all = chat.tools.empty() ? "" : dump_json(chat.tools) + "\n";
  for (const Json& message : chat.messages)
    if (const auto calls = message.find("tool_calls"); calls != message.end()) all += dump_json(*calls) + "\n";
  return all;
}

std::string calls_of(const Row& row) {
  if (const auto* chat = std::get_if<ChatRow>(&row)) return calls_of(*chat);
  if (const auto* prompt = std::get_if<PromptRow>(&row)) return calls_of(prompt->chat);
  std::string all;
  if (const auto* answers = std::get_if<AnswersRow>(&row))
    for (const AnswersRow::Answer& answer : answers->answers)
      if (const auto* chat = std::get_if<ChatRow>(&answer.row)) all += calls_of(*chat);
  return all;
}

// Returns the words of a row; for rows of tokens, the ids stand in for the text.
std::string words_of(const Row& row, const RowText& text) {
  if (const auto* tokens = std::get_if<TokensRow>(&row)) return dump_json(tokens->ids);
  std::string all = calls_of(row);
  for (const Turn& turn : text) all += turn.role + "\n" + std::string(trim(turn.text)) + "\n";
  return all;
}

// Notes what happened to the row, under the names of the checks.
void note_fate(const RowExamples& made, RowLook& look) {
  const auto note = [&](const char* check, const std::string& detail) {
    look.notes.push_back({check_named(check), place_text(look.line, look.column), detail});
  };
  if (made.untrained) note("trains_nothing", made.problem);
  if (made.dropped) note("dropped", made.problem);
  for (const std::string& part : made.unsaid)
    note(part == "tools" ? "unsaid_tools" : "unsaid", "the chat template leaves out " + part);
  if (made.cuts.unknown > 0)
    note("unknown", format_count(made.cuts.unknown) +
                        (look.tokens > 0 ? " of " + format_count(look.tokens) + " tokens" : " of the prompt's tokens") +
                        ", the first for " + dump_json(made.unknown));
  if (made.cuts.bare_prompts > 0) note("bare_prompt", "a text, not turns");
  if (made.cuts.endless > 0) note("endless", "no token that ends a text follows the answer");
  if (made.cuts.glued > 0) note("glued", "the answer begins within a token of its prompt");
  if (made.truncated)
    note("cut", format_count(made.cuts.tokens) + " of " + format_count(look.tokens) + " tokens cut away");
}

void run_checks(const CheckedText& text, const SourceRow& source, RowLook& look) {
  std::vector<std::string> seen;  // where findings are expected
  for (size_t i = 0; i < text.checked; ++i) seen.push_back(text.turns[i].pointer);
  const auto checks = data_checks();
  for (size_t i = 0; i < checks.size(); ++i) {
    if (!checks[i].run) continue;
    checks[i].run(text.turns, [&](const std::string& pointer, const std::string& detail) {
      if (std::find(seen.begin(), seen.end(), pointer) != seen.end()) return;
      const bool exact = look.notes.size() < kPlacedPerRow;
      look.notes.push_back(
          {i, exact ? place_in_row(source, pointer, "") : place_text(look.line, look.column), detail});
    });
  }
}

// Finds control tokens of this model; those that many models share have been looked for already.
void find_control_tokens(const RowText& text, const SourceRow& source, const Tokenizer& tokenizer, RowLook& look) {
  static const size_t kCheck = check_named("control_tokens");
  const bool known = std::any_of(look.notes.begin(), look.notes.end(), [](const RowNote& note) { return note.check == kCheck; });
  if (known) return;
  for (const Turn& turn : text) {
    const std::string token = tokenizer.control_token_in(turn.text);
    if (token.size() < 3) continue;  // a word may be one
    look.notes.push_back({kCheck, place_in_row(source, turn.pointer, ""), control_token_detail(turn, token)});
    return;
  }
}

// Returns a row of text with its documents one below the other: separators are no text of theirs.
// Returns nothing for other rows.
std::optional<Row> without_separators(const Row& row, const std::string& separator) {
  const auto* text = std::get_if<TextRow>(&row);
  if (!text || separator.empty()) return std::nullopt;
  return TextRow{join(documents_of(*text, separator), "\n")};
}

}  // namespace

RowLook look_at(const SourceRow& source, const Row& whole, const RowExamples& made, const RoleTokens& roles, const ExampleMaker& maker) {
  const std::optional<Row> documents = without_separators(whole, maker.separator());
  const Row& row = documents ? *documents : whole;
  RowLook look;
  look.line = source.line;
  look.column = source.column;
  look.roles = roles;
  for (const auto& [role, tokens] : roles) look.tokens += tokens.all;
  note_fate(made, look);
  for (const CheckedText& checked : checked_texts(row)) run_checks(checked, source, look);
  const RowText text = text_of(row);
  find_control_tokens(text, source, maker.tokenizer(), look);
  look.content = short_hash(words_of(row, text));
  std::string prompt, said;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool last_answer = i + 1 == text.size() && text[i].role == "assistant";
    if (last_answer)
      look.answer = short_hash(trim(text[i].text));
    else
      prompt += text[i].role + "\n" + std::string(trim(text[i].text)) + "\n";
    if (text[i].role != "system") said += text[i].text + "\n";
  }
  if (look.answer != 0) look.prompt = short_hash(prompt);
  look.sketch = sketch_of(said);
  return look;
}

}  // namespace forge
