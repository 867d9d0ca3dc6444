#include "core/data/rows/advice.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>

#include "core/data/rows/common_columns.h"
#include "core/data/rows/formats/format.h"
#include "core/data/rows/keys.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

using Rows = std::vector<LocatedRow>;

constexpr std::string_view kAnswers =
    "response answer completion output reply generation candidate conversation";
constexpr std::string_view kChoices =
    "better_response_id winner preference preferred choice chosen_id better label";
constexpr std::string_view kRanks = "ranks rank scores ratings rewards labels ranking";

bool is_numbered(const Json& object) {
  if (!object.is_object() || object.empty()) return false;
  for (const auto& [key, value] : object.items())
    if (key.empty() ||
        !std::all_of(key.begin(), key.end(), [](unsigned char c) { return std::isdigit(c) != 0; }))
      return false;
  return true;
}

// Returns advice for a label or kto_tag that is neither true nor false.
std::string label_advice(const Rows& rows, RowFormat format) {
  const bool answers = format == RowFormat::prompt_completion || format == RowFormat::messages ||
                       format == RowFormat::sharegpt || format == RowFormat::alpaca;
  bool labels = false;
  for (const auto& [row, line] : rows)
    for (const char* key : {"label", "kto_tag"}) {
      const Json* label = answers && row.is_object() ? member(row, key) : nullptr;
      if (!label) continue;
      labels = true;
      if (!label_value(*label))
        return std::string(key) + " is " + dump_json(*label) + " in line " + std::to_string(line) +
               ", expected true or false, 1 or 0: write one of these";
    }
  return labels ? "write format: kto, which reads label as good or bad" : "";
}

// Returns the name of the second answer beside a first one: response_1 beside response_0.
std::string second_of(const std::string& first) {
  if (first.size() < 2) return "";
  const char last = first.back();
  const bool counts = last == '0' || last == '1' || last == 'a' || last == 'A';
  std::string stem = folded(std::string_view(first).substr(0, first.size() - 1));
  if (!stem.empty() && stem.back() == '_') stem.pop_back();
  if (!counts || !among(kAnswers, stem)) return "";
  std::string second = first;
  ++second.back();
  return second;
}

// Returns " by KEY" for the first key of these names, other than `itself`; empty if there is none.
std::string judged_by(const Json& row, std::string_view names, const std::string& itself) {
  for (const auto& [key, unused] : row.items())
    if (key != itself && among(names, folded(key))) return " by " + key;
  return "";
}

std::string two_answers_advice(const Json& row) {
  for (const auto& [first, value] : row.items()) {
    const std::string second = second_of(first);
    if (second.empty() || !member(row, second)) continue;
    return first + " and " + second + " are two answers: write each row's better one" +
           judged_by(row, kChoices, "") +
           " as chosen and the other as rejected; where the first is always better, write columns: " +
           columns_text({{"chosen", first}, {"rejected", second}});
  }
  return "";
}

std::string ranked_answers_advice(const Json& row) {
  for (const auto& [key, value] : row.items()) {
    std::string stem = folded(key);
    if (!stem.empty() && stem.back() == 's') stem.pop_back();
    if (!value.is_array() || value.size() < 2 || !(value[0].is_string() || value[0].is_object()) ||
        !among(kAnswers, stem))
      continue;
    if (stem == "conversation") continue;
    return key + " holds several answers: write each row's best and worst" +
           judged_by(row, kRanks, key) +
           " as chosen and rejected (objective: dpo), or the best one as completion (objective: sft)";
  }
  return "";
}

bool is_turn(const Json& item) { return item.is_object() && (item.contains("role") || item.contains("from")); }

// True also for a turn whose speaker and text have names of their own.
bool is_any_turn(const Json& item) {
  if (is_turn(item) || !item.is_object()) return item.is_object();
  const TurnNames names = likely_turn_names(item);
  return !names.speaker.empty() && !names.text.empty();
}

// True for a turn in a list of turns, also for an exchange.
bool is_listed_turn(const Json& item) {
  return is_any_turn(item) || (item.is_object() && item.contains("input") && item.contains("output"));
}

// Returns the first row that is not an empty list, which says nothing of the others.
const Json& first_filled(const Rows& rows) {
  const auto filled = [](const LocatedRow& located) { return !located.row.is_array() || !located.row.empty(); };
  const auto found = std::find_if(rows.begin(), rows.end(), filled);
  return found == rows.end() ? rows[0].row : found->row;
}

bool is_json_array(const std::string& path) { return ends_with(path, ".json") || ends_with(path, ".json.gz"); }

}  // namespace

std::string judgement_advice(const Rows& rows, RowFormat format) {
  if (format == RowFormat::kto || format == RowFormat::preference || format == RowFormat::reward) return "";
  if (std::string label = label_advice(rows, format); !label.empty()) return label;
  if (rows.empty() || !rows[0].row.is_object()) return "";
  const std::string two = two_answers_advice(rows[0].row);
  return two.empty() ? ranked_answers_advice(rows[0].row) : two;
}

std::string container_advice(const Rows& rows) {
  if (rows.empty() || !rows[0].row.is_object() || rows[0].row.empty()) return "";
  const Json& row = rows[0].row;
  if (is_numbered(row) || std::all_of(row.begin(), row.end(), is_numbered))
    return "this is pandas' default; write df.to_json(\"train.jsonl\", orient=\"records\", lines=True)";
  const size_t length = row.begin()->size();
  const auto column = [&](const Json& value) {
    return value.is_array() && value.size() == length && length > 0 && !value[0].is_structured();
  };
  const bool texts = std::any_of(row.begin(), row.end(), [](const Json& value) {
    return value.is_array() && !value.empty() && value[0].is_string();
  });
  if (row.size() > 1 && texts && std::all_of(row.begin(), row.end(), column))
    return "a dictionary of columns: write datasets.Dataset.from_dict(columns).to_json(\"train.jsonl\")";
  return "";
}

std::string list_of_rows(const Json& object, const std::string& path) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_array() && !value.empty() && value[0].is_object() && !is_any_turn(value[0])) return path + key;
    if (!value.is_object()) continue;
    if (const std::string found = list_of_rows(value, path + key + "."); !found.empty()) return found;
  }
  return "";
}

std::string shape_advice(const Rows& rows, const std::string& path) {
  const Json& row = first_filled(rows);
  if (row.is_array() && !row.empty() && std::all_of(row.begin(), row.end(), is_listed_turn)) {
    const std::string name = row[0].contains("role") ? "messages" : "conversations";
    return "each row is the list of a conversation's turns: write it as an object, {\"" + name + "\": […]}";
  }
  const auto is_bare_turn = [](const LocatedRow& located) { return is_turn(located.row) && located.row.size() <= 3; };
  if (std::all_of(rows.begin(), rows.end(), is_bare_turn))
    return "each row is one turn: write each conversation as one row, {\"" +
           std::string(row.contains("role") ? "messages" : "conversations") + "\": [its turns]}";
  const auto is_conversation = [](const Json& item) { return item.is_array() && !item.empty() && is_listed_turn(item[0]); };
  if (row.is_array() && !row.empty() && std::all_of(row.begin(), row.end(), is_conversation))
    return "each row is a list of conversations: write each conversation as a row of its own, {\"" +
           std::string(row[0][0].contains("role") ? "messages" : "conversations") + "\": […]}";
  if (row.is_array() && !row.empty() && row[0].is_object() && is_json_array(path))
    return "each row is a list of objects: make one list of them, as jq add OLD.json > NEW.json does";
  if (row.is_array() && !row.empty() && row[0].is_object())
    return "a line holds a whole array: write one object a line, or name the file .json if it is one array";
  if (row.is_array())
    return "name the values: write each row as an object, {\"prompt\": …, \"completion\": …}";
  if (!row.is_object()) return "write each row as an object, {\"text\": …}, or plain texts in a .txt file";
  if (const std::string list = rows.size() == 1 ? list_of_rows(row, "") : ""; !list.empty())
    return "the rows are under " + list + ": write that list alone to a file, as jq '." + list + "' does";
  const Json* inner = member(row, "row");
  if (!inner || !inner->is_object()) return "";
  Rows below;
  for (const LocatedRow& located : rows)
    if (located.row.is_object() && member(located.row, "row"))
      below.push_back({located.row["row"], located.line});
  std::map<std::string, std::string> columns;
  try {
    columns = detect_format(below, "").columns;
  } catch (const Error&) {
  }
  for (const char* field :
       {"messages", "conversations", "instruction", "input", "output", "prompt", "completion", "text"})
    if (!columns.count(field) && member(*inner, field)) columns[field] = field;
  for (auto& [field, name] : columns) name = "row." + name;
  return columns.empty() ? "its values are under row: name them, columns: {instruction: row.your_name, "
                           "output: row.your_name}"
                         : "its values are under row: columns: " + columns_text(columns);
}

}  // namespace forge
