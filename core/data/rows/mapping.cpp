#include "core/data/rows/mapping.h"

#include <algorithm>

#include "core/data/rows/formats/format.h"
#include "core/data/rows/keys.h"
#include "core/lib/base/text.h"
#include "core/lib/io/column.h"

namespace forge {
namespace {

// Lists of turns, by forge's names.
constexpr const char* kTurnLists[] = {"messages",   "conversations", "conversation", "prompt",
                                      "completion", "chosen",        "rejected",     "rejected_messages"};
// Values that CSV can only hold as JSON in a cell.
constexpr const char* kStructured[] = {
    "messages", "conversations", "conversation", "history",  "input_ids",      "labels",           "ids",
    "prompt",   "completion",    "chosen",       "rejected", "attention_mask", "rejected_messages"};

// Returns the path of find_column as a JSON pointer. Keys with dots of their own are rare enough to
// be placed roughly.
std::string pointer_of(const std::string& path) {
  std::string pointer = "/" + path;
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  return pointer;
}

// True for keys whose values may be lists of messages, or texts that look like anything.
bool may_be_text(std::string_view key) {
  return key == "prompt" || key == "completion" || key == "chosen" || key == "rejected";
}

void parse_structured_cells(Json& row, RowFaults& faults) {
  std::vector<const char*> keys(std::begin(kStructured), std::end(kStructured));
  keys.insert(keys.end(), std::begin(kTokenMasks), std::end(kTokenMasks));
  for (const char* key : keys) {
    const Json* cell = member(row, key);
    if (!cell || !cell->is_string()) continue;
    const auto text = cell->get<std::string>();
    const std::string_view start = trim(text);
    if (!starts_with(start, "[") && !starts_with(start, "{")) continue;
    std::optional<Json> value = json_in(text);
    const bool turns = value && value->is_array() && !value->empty() && (*value)[0].is_object();
    if (!turns && may_be_text(key)) continue;
    if (value)
      row[key] = *std::move(value);
    else
      faults.push_back(
          {std::string("/") + key, std::string(key) + " starts like JSON but is not valid JSON, expected a list"});
  }
}

void parse_word_cells(Json& row) {
  for (const char* key : {"label", "kto_tag"}) {
    const Json* cell = member(row, key);
    if (const auto value = cell && cell->is_string() ? label_value(*cell) : std::nullopt) row[key] = *value;
  }
  for (const char* key : {"score", "reward"}) {
    const Json* cell = member(row, key);
    const std::optional<Json> number =
        cell && cell->is_string() ? json_in(cell->get<std::string>()) : std::nullopt;
    if (number && number->is_number()) row[key] = *number;  // else the format says what it expected
  }
}

// Returns the row key that a column is found under.
std::string head_of(const Json& row, const std::string& path) {
  return row.contains(path) ? path : path.substr(0, path.find('.'));
}

// True for the keys without which a turn is empty.
bool makes_turn(std::string_view key) {
  return key == "role" || key == "content" || key == "from" || key == "value";
}

std::vector<TemplatePiece> pieces_of(const std::optional<std::string>& text) {
  std::string problem;
  std::vector<TemplatePiece> pieces =
      text ? parse_row_template(*text, problem) : std::vector<TemplatePiece>{};
  if (!problem.empty()) throw Error(ErrorKind::job, "\"" + *text + "\": " + problem);
  return pieces;
}

}  // namespace

RowMapping::RowMapping(const DataSource& source, RowKind kind)
    : roles_(source.roles),
      prompt_(pieces_of(source.prompt)),
      completion_(pieces_of(source.completion)),
      ignored_(source.ignore),
      is_table_(kind == RowKind::csv) {
  const std::vector<std::string>& of_turns = turn_fields();
  for (const auto& [field, place] : source.columns) {
    const bool turn = std::find(of_turns.begin(), of_turns.end(), field) != of_turns.end();
    (turn ? turn_keys_ : columns_).emplace_back(field, place);
  }
}

Json RowMapping::apply(Json row, RowFaults& faults) const {
  if (!row.is_object()) return row;
  leave_out(row);
  if (!prompt_.empty()) return fill_templates(std::move(row), faults);
  map_columns(row);
  if (is_table_) {
    parse_structured_cells(row, faults);
    parse_word_cells(row);
  }
  map_turns(row);
  return row;
}

void RowMapping::leave_out(Json& row) const {
  for (const std::string& key : ignored_) {
    row.erase(key);
    if (makes_turn(key)) continue;
    for (auto& [list, turns] : row.items())
      if (turns.is_array())
        for (Json& turn : turns)
          if (turn.is_object()) turn.erase(key);
  }
}

// Returns a prompt_completion row that keeps the keys that the templates do not use.
Json RowMapping::fill_templates(Json row, RowFaults& faults) const {
  Json prompt = fill(prompt_, row, faults), completion = fill(completion_, row, faults);
  for (const auto* pieces : {&prompt_, &completion_})
    for (const TemplatePiece& piece : *pieces)
      if (piece.is_field) row.erase(head_of(row, piece.text));
  row["prompt"] = std::move(prompt);
  row["completion"] = std::move(completion);
  return row;
}

// Reads all columns before writing any, so that {prompt: completion, completion: prompt} swaps
// them.
void RowMapping::map_columns(Json& row) const {
  std::vector<std::pair<std::string, Json>> values;
  for (const auto& [field, place] : columns_) {
    const Json* value = find_column(row, place);
    values.emplace_back(field, value ? *value : Json(nullptr));
  }
  for (const auto& [field, place] : columns_) row.erase(head_of(row, place));
  for (auto& [field, value] : values) row[field] = std::move(value);
}

void RowMapping::map_turns(Json& row) const {
  if (roles_.empty() && turn_keys_.empty()) return;
  for (const char* key : kTurnLists) {
    const auto list = row.find(key);
    if (list == row.end()) continue;
    if (list->is_object()) map_turn(*list);
    if (!list->is_array()) continue;
    for (Json& turn : *list)
      if (turn.is_object()) map_turn(turn);
  }
}

void RowMapping::map_turn(Json& turn) const {
  std::vector<std::pair<std::string, Json>> values;
  for (const auto& [field, place] : turn_keys_) {
    if (const Json* value = find_column(turn, place)) values.emplace_back(field, *value);
    if (place.find('.') == std::string::npos) turn.erase(place);  // templates read every key of a message
  }
  for (auto& [field, value] : values) turn[field] = std::move(value);
  for (const char* key : {"role", "from"}) {
    const auto name = turn.find(key);
    if (name == turn.end() || !name->is_string()) continue;
    const auto role = roles_.find(name->get<std::string>());
    if (role != roles_.end()) *name = role->second;
  }
}

std::string RowMapping::fill(const std::vector<TemplatePiece>& pieces, const Json& row,
                             RowFaults& faults) const {
  std::string text;
  for (const TemplatePiece& piece : pieces) {
    const Json* value = piece.is_field ? find_column(row, piece.text) : nullptr;
    if (!piece.is_field) {
      text += piece.text;
    } else if (!value || value->is_null()) {
      // An empty table cell is an empty text here: the template decides where it goes.
      if (value && is_table_) continue;
      faults.push_back({value ? pointer_of(piece.text) : "",
                        piece.text + (value ? " is null" : " is missing") +
                            ", expected a text for {" + piece.text + "}" +
                            (value ? "" : did_you_mean(piece.text, keys_of(row)))});
    } else if (value->is_structured()) {
      faults.push_back({pointer_of(piece.text), piece.text + " is " + kind_of(*value) +
                                                    ", expected a text for {" + piece.text + "}"});
    } else {
      text += value->is_string() ? value->get<std::string>() : dump_json(*value);
    }
  }
  return text;
}

bool RowMapping::ignores_pictures() const {
  return std::any_of(ignored_.begin(), ignored_.end(), is_media_key);
}

std::vector<std::string> RowMapping::absent(const Json& row) const {
  std::vector<std::string> fields;
  for (const auto& [field, place] : columns_)
    if (find_column(row, place) == nullptr) fields.push_back(field);
  return fields;
}

void RowMapping::name_absent(const std::vector<std::string>& fields, RowFaults& faults) const {
  for (RowFault& fault : faults)
    for (const auto& [field, place] : columns_)
      if (std::count(fields.begin(), fields.end(), field) > 0 && starts_with(fault.message, field + " is null"))
        fault.message = field + " is missing: columns names " + place + " for it, which the row does not have";
}

std::string RowMapping::original(const std::string& pointer) const {
  std::vector<std::string> parts = split(pointer, '/');
  for (const auto& [field, place] : columns_)
    if (parts.size() > 1 && parts[1] == field) parts[1] = pointer_of(place).substr(1);
  for (const auto& [field, place] : turn_keys_)
    if (parts.size() > 3 && parts[3] == field) parts[3] = pointer_of(place).substr(1);
  return join(parts, "/");
}

}  // namespace forge
