#include "core/data/rows.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/data/formats/format.h"

namespace forge {
namespace {

bool has(const Json& row, const char* key) { return member(row, key) != nullptr; }

struct Format {
  RowFormat format;
  const char* name;
  bool (*matches)(const Json& row);
  Row (*convert)(const Json& row, const RowOptions& options, RowFaults& faults);
};

// In order of detection: tokens first, since a row of tokens may carry its text too.
const Format kFormats[] = {
    {RowFormat::tokens, "tokens",
     [](const Json& row) { return has(row, "input_ids") || (has(row, "ids") && has(row, "mask")); },
     convert_tokens},
    {RowFormat::messages, "messages", [](const Json& row) { return has(row, "messages"); }, convert_messages},
    {RowFormat::sharegpt, "sharegpt",
     [](const Json& row) { return has(row, "conversations") || has(row, "conversation"); }, convert_sharegpt},
    {RowFormat::alpaca, "alpaca",
     [](const Json& row) { return has(row, "instruction") && has(row, "output"); }, convert_alpaca},
    {RowFormat::prompt_completion, "prompt_completion",
     [](const Json& row) { return has(row, "prompt") && has(row, "completion"); }, convert_prompt_completion},
    {RowFormat::text, "text", [](const Json& row) { return has(row, "text"); }, convert_text},
};

std::string shown_keys(const Json& row) {
  std::vector<std::string> keys;
  for (const auto& item : row.items()) {
    if (keys.size() == 8) {
      keys.emplace_back("…");
      break;
    }
    keys.push_back(item.key());
  }
  return keys.empty() ? "no keys" : "the keys " + join(keys, ", ");
}

const Format* format_of(const Json& row) {
  for (const Format& format : kFormats)
    if (format.matches(row)) return &format;
  return nullptr;
}

}  // namespace

const char* name_of(RowFormat format) {
  for (const Format& entry : kFormats)
    if (entry.format == format) return entry.name;
  return "auto";
}

RowFormat detect_format(const std::vector<LocatedRow>& rows, const std::string& path) {
  std::vector<const Format*> found;
  for (const LocatedRow& located : rows)
    if (const Format* format = located.row.is_object() ? format_of(located.row) : nullptr)
      found.push_back(format);
  if (!found.empty()) {
    // The most frequent, the first of equals.
    auto votes = [&](const Format* format) { return std::count(found.begin(), found.end(), format); };
    return (*std::max_element(found.begin(), found.end(),
                              [&](auto* a, auto* b) { return votes(a) < votes(b); }))
        ->format;
  }
  if (rows.empty()) throw Error(ErrorKind::data, path + ": holds no rows, expected at least one");
  const auto& [row, line] = rows.front();
  const std::string place = path + ":" + std::to_string(line) + ": ";
  if (row.is_object() && row.contains("chosen") && row.contains("rejected"))
    throw Error(ErrorKind::data,
                place + "a preference pair (chosen, rejected), expected rows for sft or pretrain")
        .hint("keep the chosen answers only, as messages or prompt and completion");
  const std::string what = row.is_object() ? "the row has " + shown_keys(row) : "the row is " + kind_of(row);
  throw Error(ErrorKind::data, place + what +
                                   ", expected messages, conversations, instruction and output, prompt and "
                                   "completion, text, or input_ids")
      .hint("rename the keys, or set data.train[…].format");
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
    return result;
  }
  FORGE_CHECK(false, "a row format without a converter");
}

}  // namespace forge
