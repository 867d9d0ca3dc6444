#include "core/data/rows/rows.h"

#include <algorithm>

#include "core/data/rows/advice.h"
#include "core/data/rows/common_columns.h"
#include "core/data/rows/formats/format.h"
#include "core/data/rows/keys.h"
#include "core/lib/base/hash.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

bool has(const Json& row, const char* key) { return member(row, key) != nullptr; }

bool asks(const Json& row) {
  const Json* prompt = member(row, "prompt");
  return prompt && (prompt->is_string() || prompt->is_array());
}

bool is_alpaca(const Json& row) {
  return has(row, "instruction") && (has(row, "output") || has(row, "tool_calls"));
}

// True if the row has messages. Turns of ShareGPT's shape under this name are read by columns.
bool has_messages(const Json& row) {
  if (!has(row, "messages")) return false;
  const Json& turns = row["messages"];
  const bool named = turns.is_array() && !turns.empty() && turns[0].is_object();
  return !named || turns[0].contains("role") || !turns[0].contains("from") || !turns[0].contains("value");
}

bool is_kto(const Json& row) {
  const Json* label = member(row, "label");
  if ((has(row, "prompt") && has(row, "completion")) || has(row, "messages") || has(row, "conversations"))
    return has(row, "kto_tag") || (label && label_value(*label));
  // Numbers beside an instruction are classes in data sets made of GLUE.
  return is_alpaca(row) && (has(row, "kto_tag") || (label && label->is_boolean()));
}

bool has_pair(const Json& row) { return has(row, "chosen") && has(row, "rejected"); }
bool is_preference(const Json& row) {
  return has_pair(row) ||
         (has(row, "messages") && (has(row, "rejected_response") || has(row, "rejected_messages"))) ||
         (has(row, "input") && has(row, "preferred_output") && has(row, "non_preferred_output"));
}

struct Format {
  RowFormat format;
  const char* keys;  // keys that mark rows of this format
  bool (*matches)(const Json& row);
  Converter* convert;
};

const Format kFormats[] = {
    {RowFormat::tokens, "token ids",
     [](const Json& row) { return has(row, "input_ids") || (has(row, "ids") && has(row, "mask")); },
     convert_tokens},
    {RowFormat::messages, "messages", has_messages, convert_messages},
    {RowFormat::sharegpt, "conversations",
     [](const Json& row) { return has(row, "conversations") || has(row, "conversation"); }, convert_sharegpt},
    {RowFormat::alpaca, "instruction and output", is_alpaca, convert_alpaca},
    {RowFormat::prompt_completion, "prompt and completion",
     [](const Json& row) { return has(row, "prompt") && has(row, "completion"); }, convert_prompt_completion},
    {RowFormat::text, "text", [](const Json& row) { return has(row, "text"); }, convert_text},
    {RowFormat::preference, "a chosen and a rejected answer", is_preference, convert_preference},
    {RowFormat::kto, "an answer and its label", is_kto, convert_kto},
    {RowFormat::reward, "an answer and its score", [](const Json&) { return false; },
     convert_reward},
    {RowFormat::prompt, "a prompt alone", asks, convert_prompt},
};

// True if the larger format contains the smaller one's keys or repeats its content: the row is not
// ambiguous, and the larger format wins.
bool contains(const Json& row, RowFormat larger, RowFormat smaller) {
  const auto in_text = [&](const char* key) { return has(row, key) && stands_in(row[key], row["text"]); };
  if (smaller == RowFormat::prompt) return larger != RowFormat::text;
  if (smaller == RowFormat::text) {
    if (larger == RowFormat::tokens) return true;  // rows of tokens may carry their text
    // Alpaca's own file carries each row once more, written out.
    if (larger == RowFormat::alpaca) return in_text("instruction") && in_text("output");
    if (larger == RowFormat::prompt_completion) return in_text("prompt") && in_text("completion");
    return in_text("messages") || in_text("conversations");
  }
  if (larger == RowFormat::kto)
    return smaller == RowFormat::prompt_completion || smaller == RowFormat::messages ||
           smaller == RowFormat::sharegpt || (smaller == RowFormat::alpaca && !has(row, "completion"));
  // Conversations may repeat their first exchange.
  if (smaller == RowFormat::alpaca && (larger == RowFormat::messages || larger == RowFormat::sharegpt)) {
    const Json& turns = row[larger == RowFormat::messages ? "messages"
                            : has(row, "conversations")   ? "conversations"
                                                          : "conversation"];
    return has(row, "output") && stands_in(row["instruction"], turns) && stands_in(row["output"], turns);
  }
  if (larger != RowFormat::preference) return false;
  // UltraFeedback's binarized file carries its chosen conversation once more.
  if (smaller == RowFormat::messages) return !has_pair(row) || stands_in(row["messages"], row["chosen"]);
  return smaller == RowFormat::sharegpt && row["chosen"].is_object();
}

std::string shown_keys(const Json& row) {
  constexpr size_t kShown = 8;
  std::vector<std::string> keys = keys_of(row);
  if (keys.size() > kShown) {
    keys.resize(kShown);
    keys.emplace_back("…");
  }
  return keys.empty() ? "no keys" : "the keys " + join(keys, ", ");
}

std::vector<const Format*> candidates_of(const Json& row, bool labels_judge) {
  std::vector<const Format*> all, left;
  for (const Format& format : kFormats)
    if (format.matches(row) && (labels_judge || format.format != RowFormat::kto || has(row, "kto_tag")))
      all.push_back(&format);
  for (const Format* format : all)
    if (std::none_of(all.begin(), all.end(), [&](const Format* other) {
          return other != format && contains(row, other->format, format->format);
        }))
      left.push_back(format);
  return left;
}

[[noreturn]] void refuse_ambiguous(const std::vector<const Format*>& candidates, const std::string& place) {
  std::vector<std::string> readings, names;
  for (const Format* format : candidates) {
    names.push_back(name_of(format->format));
    readings.push_back(names.back() + " (it has " + format->keys + ")");
  }
  throw Error(ErrorKind::data,
              place + "the row could be " + join(readings, " or ") + ", expected one reading")
      .hint("say which: format: " + join(names, ", or format: ") +
            (candidates.back()->format == RowFormat::prompt
                 ? "; for a prompt and its answer, columns: {completion: text}"
                 : ""));
}

// True if all labels judge answers. Numeric labels other than 0 and 1 are classes.
bool labels_judge(const std::vector<LocatedRow>& rows) {
  return std::all_of(rows.begin(), rows.end(), [](const LocatedRow& located) {
    const Json* label = member(located.row, "label");
    return !label || label_value(*label);
  });
}

// Returns "question and answer, read as columns: {instruction: question, output: answer}".
std::string read_as(const std::map<std::string, std::string>& columns) {
  std::vector<std::string> names;
  for (const auto& [field, name] : columns) names.push_back(name);
  return join(names, " and ") + ", read as columns: " + columns_text(columns);
}

// Returns a column mapping for rows that match no format as they are.
Detected detect_by_columns(const std::vector<LocatedRow>& rows, const std::string& path) {
  if (rows.empty()) throw Error(ErrorKind::data, path + ": holds no rows, expected at least one");
  CommonColumns common = common_columns(rows);
  const auto flagged = [](const LocatedRow& located) {
    const Json* label = member(located.row, "label");
    return has(located.row, "kto_tag") || (label && label->is_boolean());
  };
  if (common.format == RowFormat::alpaca && labels_judge(rows) &&
      std::any_of(rows.begin(), rows.end(), flagged))
    common.format = RowFormat::kto;
  if (common.format != RowFormat::automatic)
    return {common.format, "the rows have " + read_as(common.columns), common.columns,
            judgement_advice(rows, common.format)};
  const auto& [row, line] = rows.front();
  const std::string place = path + ":" + std::to_string(line) + ": ";
  const std::string advice = judgement_advice(rows, RowFormat::automatic);
  const std::string shape = shape_advice(rows, path);
  const std::string what = row.is_object() ? "the row has " + shown_keys(row) : "the row is " + kind_of(row);
  throw Error(ErrorKind::data, place + what +
                                   ", expected messages, conversations, instruction and output, prompt and "
                                   "completion, text, input_ids, or chosen and rejected")
      .hint(!shape.empty() ? shape
            : common.proposal.empty()
                ? "map them: columns: {instruction: your_name, …}, or prompt: \"{your_name}\" and completion"
                : "map them: " + common.proposal + (advice.empty() ? "" : "; to compare: " + advice));
}

ChatRow as_turns(const PairRow& pair) {
  ChatRow chat{Json::array(), nullptr, {}, 1};
  append_turn(chat, "user", pair.prompt);
  append_turn(chat, "assistant", pair.completion);
  return chat;
}

// Turns texts to be answered into turns of a user.
Row with_user_prompts(Row row) {
  if (const auto* pair = std::get_if<PairRow>(&row)) return as_turns(*pair);
  if (auto* prompt = std::get_if<PromptRow>(&row); prompt && prompt->chat.messages.empty()) {
    append_turn(prompt->chat, "user", prompt->text);
    prompt->chat.prompt_messages = 1;
  }
  if (auto* answers = std::get_if<AnswersRow>(&row))
    for (AnswersRow::Answer& answer : answers->answers)
      if (const auto* pair = std::get_if<PairRow>(&answer.row)) answer.row = as_turns(*pair);
  return row;
}

// The keys are sorted, because their order in a row has no meaning.
void add(Hasher& hasher, const ChatRow& row) {
  hasher.add(nlohmann::json(row.messages).dump()).add(nlohmann::json(row.tools).dump());
}
void add(Hasher& hasher, const PairRow& row) { hasher.add(row.prompt).add(row.completion); }
void add(Hasher& hasher, const TextRow& row) { hasher.add(row.text); }
void add(Hasher& hasher, const TokensRow& row) {
  hasher.add(row.ids.data(), row.ids.size() * sizeof(int32_t))
      .add(row.supervised.data(), row.supervised.size());
}
void add(Hasher& hasher, const PromptRow& row) {
  hasher.add(row.text);
  add(hasher, row.chat);
}
void add(Hasher& hasher, const AnswersRow& row) {
  for (const AnswersRow::Answer& answer : row.answers) {
    hasher.add(answer.name);
    std::visit([&](const auto& kind) { add(hasher, kind); }, answer.row);
  }
  if (row.margin != 0) hasher.add(std::to_string(row.margin));
}

}  // namespace

bool marks_format(std::string_view field) {
  return among("input_ids ids messages conversations conversation instruction output prompt "
               "completion text chosen rejected rejected_messages rejected_response "
               "preferred_output non_preferred_output label kto_tag",
               field);
}

Detected detect_format(const std::vector<LocatedRow>& rows, const std::string& path, bool sources) {
  if (const CommonColumns pair = sources ? source_columns(rows) : CommonColumns(); pair.format != RowFormat::automatic)
    return {pair.format, "the rows have " + read_as(pair.columns), pair.columns, ""};
  if (const std::string advice = container_advice(rows); !advice.empty())
    throw Error(ErrorKind::data, path + ":" + std::to_string(rows.front().line) +
                                     ": the row holds whole columns, expected one object per row")
        .hint(advice);
  std::vector<const Format*> found;
  const bool judged = labels_judge(rows);
  for (const LocatedRow& located : rows) {
    if (!located.row.is_object()) continue;
    const std::vector<const Format*> candidates = candidates_of(located.row, judged);
    if (candidates.size() > 1) refuse_ambiguous(candidates, path + ":" + std::to_string(located.line) + ": ");
    if (!candidates.empty()) found.push_back(candidates[0]);
  }
  // A prompt without a completion is a broken pair if other rows are complete.
  const auto is_weak = [](const Format* format) { return format->format == RowFormat::prompt; };
  if (!std::all_of(found.begin(), found.end(), is_weak)) std::erase_if(found, is_weak);
  if (found.empty()) return detect_by_columns(rows, path);
  // The most frequent format wins; among equals, the first.
  auto votes = [&](const Format* format) { return std::count(found.begin(), found.end(), format); };
  const Format* most =
      *std::max_element(found.begin(), found.end(), [&](auto* a, auto* b) { return votes(a) < votes(b); });
  if (is_weak(most))
    if (const std::string proposal = answered_prompt_proposal(rows); !proposal.empty())
      throw Error(ErrorKind::data,
                  path + ": rows have a prompt, and an answer under a name that forge does not know")
          .hint(proposal);
  Detected detected{most->format,
                    std::to_string(votes(most)) + " of the first " + std::to_string(rows.size()) +
                        (rows.size() == 1 ? " row has " : " rows have ") + most->keys};
  detected.columns = further_columns(rows, detected.format);
  if (!detected.columns.empty()) detected.reason += ", and " + read_as(detected.columns);
  detected.advice = judgement_advice(rows, detected.format);
  return detected;
}

std::optional<Row> convert_row(const Json& row, RowFormat format, const RowOptions& options,
                               RowFaults& faults) {
  const size_t before = faults.size();
  if (!row.is_object()) {
    faults.push_back({"", "the row is " + kind_of(row) + ", expected an object"});
    return std::nullopt;
  }
  for (const Format& entry : kFormats) {
    if (entry.format != format) continue;
    Row result = entry.convert(row, options, faults);
    if (faults.size() != before) return std::nullopt;
    return options.user_prompts ? with_user_prompts(std::move(result)) : result;
  }
  FORGE_CHECK(false, "a row format without a converter");
}

std::string content_of(const Row& row) {
  Hasher hasher;
  hasher.add(static_cast<int64_t>(row.index()));
  std::visit([&](const auto& kind) { add(hasher, kind); }, row);
  return hasher.hex();
}

}  // namespace forge
