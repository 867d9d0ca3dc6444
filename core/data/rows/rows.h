#pragma once
// The meaning of a row of a data file, whatever its shape: a conversation, a prompt with its
// completion, a document, or finished tokens.
//
//   RowFormat format = detect_format(first_rows, path).format;
//   RowFaults faults;
//   std::optional<Row> row = convert_row(json, format, {}, faults);   // nothing when it has faults
//
// Shapes (one file each in formats/; `null` members count as absent; keys.h says what becomes of
// other keys):
//   messages           {"messages": [{"role", "content", …}], "system", "tools": […]}; `train`, `training`, `loss`,
//                      `weight` or `loss_weight` on an assistant's turn says whether it is trained
//   sharegpt           {"conversations": [{"from", "value"} or {"input", "output"}], "system", "tools"}
//   alpaca             {"instruction", "input", "output" or "tool_calls", "system", "tools", "history": [[question,
//                      answer]]}
//   prompt_completion  {"prompt", "completion"}: two texts, or two lists of messages
//   text               {"text"}
//   tokens             {"input_ids", "labels" or masks (kTokenMasks), "attention_mask"}; also as `forge data --dump` writes
//                      them
// Answers to judge (core/learn/objective says which objective trains on which; others are shown by
// `forge data`):
//   preference         {"chosen", "rejected", "prompt"}: texts or lists of messages, whose common beginning is the
//                      prompt where they bring none; or "messages" with
//                      "rejected_response"; or "conversations" with one turn each in chosen and rejected; or OpenAI's "input",
//                      "preferred_output" and "non_preferred_output". "margin", a number
//                      beside them, says by how much the chosen one should win (objective reward)
//   kto                {"prompt", "completion", "label"} or {"messages", "label"}: label (or kto_tag) true, false, 1
//                      or 0; alpaca's rows with kto_tag, or with a label true or false
//   reward             {"prompt", "completion", "score"} or {"messages", "score"}: a number; only when the job
//                      says so, since many data sets carry a score that nobody trains on
//   prompt             {"prompt"}: a text or a list of messages to be answered; other keys are for rewards
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/job/job.h"
#include "core/job/names.h"
#include "core/lib/io/json.h"

namespace forge {

// Lists of 0 and 1 that say which tokens of a row are trained.
inline constexpr const char* kTokenMasks[] = {"mask",           "loss_mask", "completion_mask", "assistant_mask",
                                              "assistant_masks", "label_mask", "labels_mask",     "train_mask"};

// The form of a row in its file.
enum class RowKind { json, csv, text };

enum class TurnTraining : int8_t { by_role, yes, no };

struct ChatRow {
  Json messages;                       // role, content and what else templates read; no training flags
  Json tools;                          // a list, or null
  std::vector<TurnTraining> training;  // per message
  int64_t prompt_messages = 0;         // this many first messages are never trained (prompt/completion lists)
};
struct PairRow {
  std::string prompt, completion;
};
struct TextRow {
  std::string text;
};
struct TokensRow {
  std::vector<int32_t> ids;
  std::vector<uint8_t> supervised;
};
// A prompt to be answered: `chat` when it has messages, else `text`. Nothing of it is trained.
struct PromptRow {
  ChatRow chat;
  std::string text;
};
// One or two answers to judge: chosen and rejected, or one that is good, bad or has a score.
struct AnswersRow {
  struct Answer {
    std::string name;  // chosen, rejected, desirable, undesirable, "score 0.5"
    std::variant<ChatRow, PairRow> row;
  };
  std::vector<Answer> answers;
  double margin = 0;            // by how much the chosen one should win, where a row says so
  bool prompts_differ = false;  // chosen and rejected differ in a turn that neither answers
};
using Row = std::variant<ChatRow, PairRow, TextRow, TokensRow, PromptRow, AnswersRow>;

// A fault of one row: where (a JSON pointer into the row) and "what, expected what". `key` names a
// member that nothing reads, or a speaker that nobody knows: such faults come with all rows of a
// file and are reported once.
struct RowFault {
  std::string pointer;
  std::string message;
  std::string key = {};
};
using RowFaults = std::vector<RowFault>;

struct RowOptions {
  bool has_template =
      true;  // without a chat template alpaca rows become prompt/completion in Alpaca's own words
  int64_t vocab_size = 0;  // ids of `tokens` rows lie below it; 0: not known
  bool source = false;     // for an encoder: alpaca rows become their instruction and input, without other words
  bool user_prompts = false;  // a prompt that is a text becomes a user's turn, its completion an assistant's
};

// True for a field that rows of a format must have, such as `completion`; false for one that they
// may have, such as `system`.
bool marks_format(std::string_view field);
// Returns a hash of what the row means to a model: ids and sources of rows do not matter, nor the
// order of keys. Equal rows of different shapes (alpaca, messages) have equal hashes.
std::string content_of(const Row& row);

// detect_format finds the format that most of the first rows of one file have, and why; and the
// columns that they have under other common names (common_columns.h), as a job's `columns` would
// say it. Throws Error(data) at a row that could be of several formats, naming them, and when no
// row has any.
struct LocatedRow {
  Json row;
  int64_t line = 1;
};
struct Detected {
  RowFormat format = RowFormat::automatic;
  std::string reason;  // "3 of the first 3 rows have messages"
  std::map<std::string, std::string> columns = {};
  std::string advice = {};  // judgement_advice (advice.h)
};
// Detects the format. `sources` is for an encoder-decoder: a document beside its summary is then a
// pair, though such rows do not say which task it is.
Detected detect_format(const std::vector<LocatedRow>& rows, const std::string& path, bool sources = false);

std::optional<Row> convert_row(const Json& row, RowFormat format, const RowOptions& options,
                               RowFaults& faults);

}  // namespace forge
