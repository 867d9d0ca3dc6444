#include "core/job/foreign.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "core/job/field.h"
#include "core/job/parse.h"
#include "core/lib/base/embedded_file.h"
#include "core/lib/base/error.h"
#include "core/lib/base/text.h"
#include "core/lib/base/typo.h"

namespace forge {

const std::vector<EmbeddedFile>& embedded_foreign();  // generated from foreign/keys.txt

namespace {

constexpr size_t kTypoLength = 8;  // other tools' shorter names are too similar to guess

// True if `pattern` matches: * stands for any text; case is ignored, as for Python's True.
bool matches(std::string_view pattern, std::string_view text) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return lower(pattern) == lower(text);
  if (text.size() < star || lower(pattern.substr(0, star)) != lower(text.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t begin = star; begin <= text.size(); ++begin)
    if (matches(rest, text.substr(begin))) return true;
  return false;
}

bool has_dot(std::string_view name) { return name.find('.') != std::string_view::npos; }

std::vector<std::string> trimmed_parts(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (const std::string& part : split(text, separator)) parts.emplace_back(trim(part));
  return parts;
}

// Reads keys.txt. A malformed line is a bug in this program.
class TableReader {
 public:
  std::vector<ForeignRow> rows;
  std::map<std::string, std::vector<ValueRule>> values;  // by forge's key

  explicit TableReader(const EmbeddedFile& file) : file_(file) {
    for (const std::string& line : split(file.text, '\n')) {
      ++line_;
      if (line.empty() || line[0] == '#') continue;
      if (line.find(" | ") != std::string::npos)
        add_row(line);
      else
        add_named(line);
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    throw Error(ErrorKind::internal, std::string(file_.name) + ":" + std::to_string(line_) + ": " + problem);
  }

  // Reads "@name: sentence" or "forge.key: VALUES -> TEXT; …".
  void add_named(const std::string& line) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) refuse("expected KEYS | TOOLS | FORGE | HOW, @NAME: TEXT or KEY: RULES");
    const std::string name = line.substr(0, colon), text = line.substr(colon + 2);
    if (name[0] == '@') {
      sentences_[name] = text;
      return;
    }
    if (!find_field(name)) refuse(name + " is no key of forge");
    std::string note;
    read_clauses(text, values[name], note);
    if (!note.empty()) refuse("\"" + note + "\" is no VALUES -> TEXT");
  }

  void add_row(const std::string& line) {
    const std::vector<std::string> cells = trimmed_parts(line, '|');
    if (cells.size() != 4) refuse("expected four cells");
    ForeignRow row;
    row.keys = trimmed_parts(cells[0], ',');
    if (cells[1].empty()) refuse("a row says where its keys come from");
    if (cells[2] == "-")
      row.kind = ForeignRow::Kind::needless;
    else if (cells[2] == "later")
      row.kind = ForeignRow::Kind::later;
    else
      row.key = cells[2];
    if (row.key.starts_with("~")) {
      row.same_value = false;
      row.key.erase(0, 1);
    }
    if (row.key.ends_with(".")) {
      row.short_form = false;
      row.key.pop_back();
    }
    read_clauses(cells[3], row.rules, row.note);
    if (row.key.empty() && row.note.empty()) refuse("a key without a counterpart needs a reason");
    rows.push_back(std::move(row));
  }

  void read_clauses(const std::string& text, std::vector<ValueRule>& rules, std::string& note) const {
    if (text.empty()) return;
    for (const std::string& clause : trimmed_parts(text, ';')) {
      const size_t arrow = clause.find("->");
      if (arrow == std::string::npos) {
        note += (note.empty() ? "" : "; ") + sentence(clause);
        continue;
      }
      ValueRule rule{trimmed_parts(clause.substr(0, arrow), ','),
                     std::string(trim(clause.substr(arrow + 2)))};
      rule.sentence = rule.text.starts_with("!");
      if (rule.sentence) rule.text = sentence(rule.text.substr(1));
      rules.push_back(std::move(rule));
    }
  }

  std::string sentence(const std::string& text) const {
    if (!text.starts_with("@")) return text;
    auto found = sentences_.find(text);
    if (found == sentences_.end()) refuse(text + " is no sentence above");
    return found->second;
  }

  const EmbeddedFile& file_;
  int64_t line_ = 0;
  std::map<std::string, std::string> sentences_;
};

struct Index {
  TableReader table{embedded_foreign().at(0)};
  std::unordered_map<std::string, const ForeignRow*> exact;
  std::vector<std::pair<std::string, const ForeignRow*>> patterns;  // the longest first
  std::vector<std::string> names;                                   // long enough to guess

  Index() {
    for (const ForeignRow& row : table.rows)
      for (const std::string& key : row.keys) {
        if (key.find('*') != std::string::npos)
          patterns.emplace_back(key, &row);
        else
          exact.emplace(key, &row);
        const bool plain = key.find_first_of("*./[") == std::string::npos;
        if (plain && key.size() >= kTypoLength && !row.key.empty()) names.push_back(key);
      }
    std::stable_sort(patterns.begin(), patterns.end(),
                     [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  }
};

const Index& table_index() {
  static const Index index;
  return index;
}

bool is_blank(const Node& value) { return value.is_null() || (value.is_scalar() && value.scalar.empty()); }

// Returns the word that VALUES are matched against. A list of one counts as its item.
std::string word_of(const Node& value) {
  if (is_blank(value)) return "null";
  if (value.is_scalar()) return value.scalar;
  if (value.is_map()) return "{}";
  const bool one = value.items.size() == 1 && value.items[0].is_scalar();
  return one ? value.items[0].scalar : "[]";
}

const ValueRule* rule_for(const std::vector<ValueRule>& rules, const std::string& word) {
  for (const ValueRule& rule : rules)
    for (const std::string& pattern : rule.values)
      if (matches(pattern, word)) return &rule;
  return nullptr;
}

// Returns the key whose rules apply: data.eval[3].path and data.train[].path share those of
// data.train.path.
std::string rules_key(std::string key) {
  for (size_t open = key.find('['); open != std::string::npos; open = key.find('['))
    key.erase(open, key.find(']', open) + 1 - open);
  return key.starts_with("data.eval.") ? "data.train." + key.substr(10) : key;
}

// Returns the rule for a value of forge's key; null for words that the key accepts as they are.
const ValueRule* rule_of(const std::string& key, const std::string& word) {
  if (const Field* field = find_field(rules_key(key)))
    for (const std::string& own : accepted_words(*field))
      if (own == word) return nullptr;
  return rule_for(foreign_value_rules(key), word);
}

// Returns "write grpo" for GRPO; empty for a word that is not a choice of the key, or is one as it
// stands.
std::string spelling_hint(const std::string& key, const std::string& word) {
  const Field* field = find_field(rules_key(key));
  if (!field) return "";
  for (const std::string& own : accepted_words(*field))
    if (own != word && lower(own) == lower(word)) return "write " + own;
  return "";
}

std::string said(const ValueRule& rule) {
  if (rule.sentence) return rule.text;
  return rule.text.empty() ? "leave it out" : "write " + rule.text;
}

// True for OWNER/NAME, which may also be a folder, so it gives a hint and no error. Some first
// parts are never owners.
bool could_be_a_hub_name(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == 0 || slash == std::string::npos || slash + 1 == text.size() || text[0] == '.' ||
      text.find('/', slash + 1) != std::string::npos)
    return false;
  static const std::vector<std::string> folders{
      "model", "models",  "base",    "weights", "data",     "dataset",     "datasets",
      "runs",  "results", "outputs", "output",  "out",      "checkpoint",  "checkpoints",
      "ckpt",  "ckpts",   "saves",   "saved",   "adapters", "experiments", "logs",
      "tmp",   "src",     "tests",   "examples"};
  if (std::find(folders.begin(), folders.end(), text.substr(0, slash)) != folders.end()) return false;
  const bool plain = text.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789-_./") == std::string::npos;
  static const std::vector<std::string> files{".json", ".jsonl", ".csv", ".tsv", ".txt",
                                              ".md",   ".gguf",  ".gz",  ".zst", ".parquet"};
  const bool file = std::any_of(files.begin(), files.end(),
                                [&](const std::string& ending) { return ends_with(text, ending); });
  return plain && !file;
}

std::string download_hint(const Field& field, const std::string& key, const std::string& word) {
  const bool data = key.starts_with("data.");
  const Field* place = field.kind == FieldKind::sections && data ? find_field("data.train.path") : &field;
  if (!place->path || key == "output_dir" || !could_be_a_hub_name(word)) return "";
  return std::string("write a name of the hub as ") + (data ? "" : "model: ") + "{repo: " + word + "}, which forge fetch downloads";
}

// Returns the reason why forge's key would refuse the value as it is.
std::string misfit(const Field& field, const std::string& key, const Node& value) {
  if (value.is_scalar() && value.scalar.find("${") != std::string::npos) return "";
  const std::string problem = value_problem(field, key, value), kind = describe(value) + ", expected ";
  if (problem.starts_with(kind))
    return "it takes " + problem.substr(kind.size()) + ", not " + describe(value);
  return problem.empty() ? "" : "where " + problem;
}

}  // namespace

const std::vector<ForeignRow>& foreign_rows() { return table_index().table.rows; }

const std::vector<ValueRule>& foreign_value_rules(const std::string& key) {
  static const std::vector<ValueRule> none;
  const auto& values = table_index().table.values;
  auto found = values.find(rules_key(key));
  return found == values.end() ? none : found->second;
}

const ForeignRow* find_foreign_row(const std::vector<std::string>& names, bool patterns) {
  const Index& index = table_index();
  for (const std::string& name : names)
    if (auto found = index.exact.find(name); found != index.exact.end()) return found->second;
  if (!patterns) return nullptr;
  for (const std::string& name : names)
    for (const auto& [pattern, row] : index.patterns)  // vllm* is no pattern of keys below vllm
      if (has_dot(pattern) == has_dot(name) && matches(pattern, name)) return row;
  return nullptr;
}

bool has_foreign_rows_below(const std::string& section) {
  for (const ForeignRow& row : foreign_rows())
    for (const std::string& key : row.keys)
      if (key.starts_with(section + ".") || key.starts_with(section + "[].")) return true;
  return false;
}

std::string misspelt_foreign_key(const std::string& word) {
  if (word.size() < kTypoLength) return "";
  const std::string meant = likely_meant(word, table_index().names);
  return !meant.empty() && edit_distance(lower(word), lower(meant)) == 1 ? meant : "";
}

std::string foreign_value_hint(const std::string& key, const std::string& value) {
  const ValueRule* rule = rule_of(key, value);
  return rule ? said(*rule) : spelling_hint(key, value);
}

std::string carried_value_hint(const std::string& key, const Node& value) {
  const Field* field = find_field(rules_key(key));
  if (!field) return "";
  const std::string word = word_of(value);
  if (const ValueRule* rule = rule_of(key, word)) return said(*rule);
  if (is_blank(value)) return "leave it out";
  if (std::string hint = spelling_hint(key, word); !hint.empty()) return hint;
  if (std::string hint = download_hint(*field, key, word); !hint.empty()) return hint;
  return misfit(*field, key, value);
}

std::string hub_hint(const std::string& key, const std::string& written) {
  const Field* field = find_field(rules_key(key));
  return field ? download_hint(*field, key, written) : "";
}

std::string foreign_hint(const ForeignRow& row, const std::string& name, const Node& value) {
  if (row.kind != ForeignRow::Kind::counterpart) {
    const ValueRule* rule = rule_for(row.rules, word_of(value));
    const std::string reason = rule ? said(*rule) : row.note;
    return name + " has no counterpart" + (row.kind == ForeignRow::Kind::later ? " yet: " : ": ") + reason;
  }
  std::string key = row.key;
  const Field* field = find_field(rules_key(key));
  // A scalar in place of a section is its short form: `lr_scheduler: cosine` is schedule.type.
  const bool alone = !is_blank(value) && !value.is_map();
  if (field && field->kind == FieldKind::section && !field->shorthand.empty() && row.short_form && alone) {
    key += "." + field->shorthand;
    field = find_field(key);
  }
  std::string hint = name == key ? "it is " + key + ", at the top of the file" : name + " is " + key + " here";
  std::string change;
  if (const ValueRule* rule = rule_for(row.rules, word_of(value)))
    change = said(*rule);
  else if (is_blank(value))
    change = "leave it out";
  else if (row.same_value)
    change = carried_value_hint(key, value);
  if (!change.empty() && !row.note.starts_with(change)) hint += "; " + change;
  return hint + (row.note.empty() ? "" : "; " + row.note);
}

}  // namespace forge
