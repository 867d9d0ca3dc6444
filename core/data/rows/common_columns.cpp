#include "core/data/rows/common_columns.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>

#include "core/data/rows/formats/format.h"
#include "core/data/rows/keys.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

using Rows = std::vector<LocatedRow>;

// Names of columns, with blanks between.
constexpr std::string_view kAsks = "instruction question query problem human user";
constexpr std::string_view kReplies = "output response answer completion solution assistant reply";
// Columns that hold a task's input and output, though nothing says which task it is.
constexpr std::string_view kMaterial = "article document dialogue passage text source prompt title";
constexpr std::string_view kMade = "summary highlights abstract target translation";
// Names that published sets for encoder-decoders use for the source and the target.
constexpr std::string_view kSources = "input source document article dialogue passage text";
constexpr std::string_view kTargets = "target summary highlights abstract";
constexpr std::string_view kSystems = "system_prompt system_message";

// True if at least one row has such a value under the key and no row has another kind; null does
// not count.
template <class Is>
bool all_are(const Rows& rows, const std::string& key, Is is) {
  bool any = false;
  for (const auto& [row, line] : rows) {
    const Json* value = member(row, key);
    if (value && !is(*value)) return false;
    any |= value != nullptr;
  }
  return any;
}
bool has_text(const Rows& rows, const std::string& key) {
  return all_are(rows, key, [](const Json& value) { return value.is_string(); });
}
bool has_any(const Rows& rows, const std::string& key) {
  return all_are(rows, key, [](const Json&) { return true; });
}

// Returns the columns of texts that have one of these names, in capitals or not, in the order of
// the names.
std::vector<std::string> texts(const Rows& rows, std::string_view names) {
  std::vector<std::string> found;
  if (rows.empty() || !rows[0].row.is_object()) return found;
  for (const std::string& name : split(names, ' '))
    for (const auto& [key, unused] : rows[0].row.items())
      if (lower(key) == name && has_text(rows, key)) found.push_back(key);
  return found;
}

void add(std::map<std::string, std::string>& columns, const std::string& field, const std::string& name) {
  if (field != name) columns[field] = name;
}

// True for calls as Salesforce's xlam writes them: JSON, also in a text.
bool is_calls(const Json& value) {
  if (value.is_array()) return !value.empty() && value[0].is_object() && value[0].contains("name");
  return value.is_string() && starts_with(trim(value.get_ref<const std::string&>()), "[");
}

// Finds a single list of turns under another name. A list whose turns have names of their own, too,
// is proposed with them.
CommonColumns turn_list(const Rows& rows) {
  std::vector<CommonColumns> all;
  std::vector<std::string> own;
  if (rows.empty() || !rows[0].row.is_object()) return {};
  for (const auto& [key, value] : rows[0].row.items()) {
    if (!value.is_array() || value.empty() || !value[0].is_object()) continue;
    if (value[0].contains("role") && value[0].contains("content"))
      all.push_back({RowFormat::messages, {{"messages", key}}, ""});
    if (value[0].contains("from") && value[0].contains("value"))
      all.push_back({RowFormat::sharegpt, {{"conversations", key}}, ""});
    const TurnNames names = likely_turn_names(value[0]);
    if (names.speaker.empty() || names.text.empty()) continue;
    own.push_back("columns: " + columns_text({{"conversations", key}, {"from", names.speaker}, {"value", names.text}}));
  }
  if (all.size() == 1) return all[0];
  CommonColumns none;
  if (all.empty()) none.proposal = join(own, ", or ");
  for (const CommonColumns& one : all)
    none.proposal += (none.proposal.empty() ? "columns: " : ", or columns: ") + columns_text(one.columns);
  return none;
}

std::string in_braces(const std::string& name) { return "{" + name + "}"; }

// Proposes templates for answers that are not text: SQuAD's lists, and numbers.
std::string template_proposal(const Rows& rows, const std::string& ask) {
  const auto squad = [](const Json& value) {
    return value.is_object() && value.contains("text") && value["text"].is_array();
  };
  const std::string prompt = (has_text(rows, "context") ? "{context}\\n\\n" : "") + in_braces(ask);
  const auto written = [&](const std::string& answer) {
    return "prompt: \"" + prompt + "\\n\" and completion: \"" + in_braces(answer) + "\"";
  };
  if (all_are(rows, "answers", squad)) return written("answers.text.0");
  for (const std::string& reply : split(kReplies, ' '))
    if (all_are(rows, reply, [](const Json& value) { return value.is_number() || value.is_string(); }))
      return written(reply);
  return "";
}

std::string pairs_proposal(const std::vector<std::string>& asks, const std::vector<std::string>& replies) {
  constexpr size_t kMost = 4;
  std::vector<std::string> lines;
  for (const std::string& ask : asks)
    for (const std::string& reply : replies)
      if (lines.size() < kMost && ask != reply)
        lines.push_back("columns: " + columns_text({{"instruction", ask}, {"output", reply}}));
  return join(lines, ", or ");
}

// True for a column that numbers or places its row: an id, the index that pandas wrote, an address.
bool is_mark(const std::string& key) {
  const std::string name = folded(key);
  return among("id uid uuid guid idx index key hash url uri link", name) ||
         ends_with(name, "_id") || starts_with(name, "unnamed") || starts_with(name, "__index");
}

// True if a row has a text under the key of which `holds` is true.
template <class Holds>
bool any_text(const Rows& rows, const std::string& key, Holds holds) {
  return std::any_of(rows.begin(), rows.end(), [&](const LocatedRow& located) {
    const Json* value = member(located.row, key);
    return value && value->is_string() && holds(value->get_ref<const std::string&>());
  });
}

// True for more than one word: labels and languages are one word each.
bool is_worded(const std::string& text) {
  return trim(text).find_first_of(" \n") != std::string_view::npos;
}

bool has_letters(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return std::isalpha(c) || c >= 0x80; });
}

// Returns the columns that are likely read and learned: without marks, and those of words alone if
// there are two.
std::vector<std::string> telling_names(const Rows& rows, const std::vector<std::string>& names) {
  std::vector<std::string> plain, worded;
  for (const std::string& name : names)
    if (!is_mark(name)) plain.push_back(name);
  for (const std::string& name : plain)
    if (any_text(rows, name, is_worded)) worded.push_back(name);
  if (worded.size() > 1) return worded;
  return plain.empty() ? names : plain;
}

// Proposes columns for names that say nothing to forge: the first and the last telling text of a
// row are taken for question and answer.
std::string own_names_proposal(const Rows& rows) {
  std::vector<std::string> names;
  if (rows.empty() || !rows[0].row.is_object()) return "";
  for (const auto& [key, unused] : rows[0].row.items())
    if (has_text(rows, key) && any_text(rows, key, has_letters)) names.push_back(key);
  if (names.empty()) return "";
  names = telling_names(rows, names);
  const std::string document = "columns: " + columns_text({{"text", names.back()}}) + " with objective: pretrain";
  if (names.size() == 1) return document;
  return "columns: " + columns_text({{"instruction", names.front()}, {"output", names.back()}}) +
         (names.size() > 2 ? ", or others of " + join(names, ", ") : "");
}

}  // namespace

std::string yaml_name(const std::string& name) {
  const auto inner = [](unsigned char c) { return std::isalnum(c) || c >= 0x80 || c == '_' || c == '.' || c == '-' || c == ' '; };
  const bool is_plain = !name.empty() && (std::isalpha(static_cast<unsigned char>(name[0])) || name[0] == '_') && name.back() != ' ' &&
                        std::all_of(name.begin(), name.end(), inner) &&
                        !among("null true false yes no on off y n", lower(name));
  return is_plain ? name : Json(name).dump();
}

std::string columns_text(const std::map<std::string, std::string>& columns) {
  std::vector<std::string> parts;
  for (const auto& [field, name] : columns) parts.push_back(field + ": " + yaml_name(name));
  return "{" + join(parts, ", ") + "}";
}

std::map<std::string, std::string> further_columns(const Rows& rows, RowFormat format) {
  std::map<std::string, std::string> columns;
  const bool chat =
      format == RowFormat::messages || format == RowFormat::sharegpt || format == RowFormat::alpaca;
  const std::vector<std::string> systems = texts(rows, kSystems);
  if (chat && systems.size() == 1 && !has_any(rows, "system")) columns["system"] = systems[0];
  if (format == RowFormat::alpaca && !has_any(rows, "input") && has_text(rows, "context"))
    columns["input"] = "context";
  if (format == RowFormat::preference && has_text(rows, "chosen") && !has_any(rows, "prompt")) {
    const std::vector<std::string> asks = texts(rows, kAsks);
    if (asks.size() == 1) columns["prompt"] = asks[0];
  }
  return columns;
}

CommonColumns common_columns(const Rows& rows) {
  std::vector<std::string> asks = texts(rows, kAsks);
  std::vector<std::string> replies = texts(rows, kReplies);
  if (asks.empty() && has_text(rows, "input")) asks.emplace_back("input");
  CommonColumns common{RowFormat::alpaca, {}, ""};
  if (asks.size() == 1) add(common.columns, "instruction", asks[0]);
  if (asks.size() == 1 && has_any(rows, "tools") && all_are(rows, "answers", is_calls)) {
    common.columns["tool_calls"] = "answers";
    return common;
  }
  if (asks.size() == 1 && replies.size() == 1) {
    add(common.columns, "output", replies[0]);
    common.columns.merge(further_columns(rows, RowFormat::alpaca));
    return common;
  }
  CommonColumns turns = turn_list(rows);
  if (turns.format != RowFormat::automatic || !turns.proposal.empty()) return turns;
  common = {};
  std::ranges::move(texts(rows, kMade), std::back_inserter(replies));
  common.proposal = pairs_proposal(asks.empty() ? texts(rows, kMaterial) : asks, replies);
  if (common.proposal.empty() && !asks.empty()) common.proposal = template_proposal(rows, asks[0]);
  if (common.proposal.empty()) common.proposal = own_names_proposal(rows);
  return common;
}

CommonColumns source_columns(const Rows& rows) {
  const std::vector<std::string> sources = texts(rows, kSources), targets = texts(rows, kTargets);
  if (sources.size() != 1 || targets.size() != 1) return {};
  return {RowFormat::prompt_completion, {{"prompt", sources[0]}, {"completion", targets[0]}}, ""};
}

std::string answered_prompt_proposal(const Rows& rows) {
  std::vector<std::string> replies = texts(rows, kReplies);
  std::erase_if(replies, [](const std::string& name) { return name == "answer" || name == "solution"; });
  if (replies.size() != 1) return "";
  return "as a conversation, columns: " + columns_text({{"instruction", "prompt"}, {"output", replies[0]}}) +
         "; word for word, columns: " + columns_text({{"completion", replies[0]}});
}

}  // namespace forge
