#include <map>

#include "core/job/emit.h"
#include "core/job/field.h"
#include "core/job/foreign.h"
#include "core/job/job_json.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

// Texts of kinds that have the same for every key.
const std::map<FieldKind, std::string> kTypeTexts{
    {FieldKind::boolean, "true, false"},
    {FieldKind::bytes, "bytes"},
    {FieldKind::seconds, "time"},
    {FieldKind::texts, "list of texts"},
    {FieldKind::numbers, "list of numbers"},
    {FieldKind::integers, "list of whole numbers"},
    {FieldKind::integer_map, "names to whole numbers"},
    {FieldKind::integer_lists, "list of whole numbers, or names to such lists"},
    {FieldKind::number_map, "names to numbers"},
    {FieldKind::text_map, "names to texts"},
    {FieldKind::scalar_map, "names to values"},
    {FieldKind::section, "keys"},
};

std::string type_text(const Field& field) {
  const std::string or_auto = field.automatic ? " or `auto`" : "";
  switch (field.kind) {
    case FieldKind::integer:
      return "whole number" + or_auto;
    case FieldKind::number:
      return "number" + or_auto;
    case FieldKind::text:
      return field.path ? "path" : "text";
    case FieldKind::choice: {
      std::vector<std::string> words = accepted_words(field);
      for (std::string& word : words) word = "`" + word + "`";
      if (field.automatic) words.push_back("`auto`");
      return join(words, " ");
    }
    case FieldKind::targets:
      return (field.choices.empty() ? "" : "`all-linear`, ") + std::string("list of names, or regex");
    case FieldKind::sections:
      return std::string(field.shorthand == "path" ? "file, or list of files or {" : "list of words or {") +
             join(keys_of(field.fields), ", ") + "}";
    default:
      return kTypeTexts.at(field.kind);
  }
}

// Returns a default number as a person writes it: 0.0002, not 2e-04; 32, not 32.0.
std::string number_text(const Json& value) {
  return value.is_number_float() ? format_number(value.get<double>()) : dump_json(value);
}

std::string default_text(const Field& field, const void* object) {
  if (field.required) return "required";
  Json value = value_of(field, object);
  if (value.is_null() || value == "") return field.when_unset.empty() ? "not set" : field.when_unset;
  if (value.empty() && !field.when_unset.empty()) return field.when_unset;
  if (value.is_array() && !value.empty() && value[0].is_number()) {
    std::vector<std::string> items;
    for (const Json& item : value) items.push_back(number_text(item));
    return "`[" + join(items, ", ") + "]`";
  }
  std::string text = value.is_string() ? value.get<std::string>() : number_text(value);
  return "`" + text + "`" + (field.when_unset.empty() ? "" : ": " + field.when_unset);
}

std::string range_and_unit(const Field& field) {
  const std::string text = range_text(field);
  return text + (text.empty() || field.unit.empty() ? "" : " ") + field.unit;
}

std::string escaped(std::string text) {
  for (size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2))
    text.insert(at, "\\");
  return text;
}

using Rows = std::vector<std::vector<std::string>>;

std::string table(const Rows& rows) {
  std::string text;
  for (size_t i = 0; i < rows.size(); ++i) {
    text += "|";
    for (const std::string& cell : rows[i]) text += cell.empty() ? " |" : " " + escaped(cell) + " |";
    text += "\n";
    if (i == 0) text += "|" + join(std::vector<std::string>(rows[0].size(), "---"), "|") + "|\n";
  }
  return text;
}

// Adds the rows of a section's keys.
void collect(const std::vector<Field>& fields, void* object, const std::string& prefix, Rows& rows) {
  for (const Field& field : fields) {
    if (field.kind == FieldKind::section) {
      collect(field.fields, field.member(object), prefix + field.key + ".", rows);
      continue;
    }
    rows.push_back({"`" + prefix + field.key + "`", type_text(field), default_text(field, object),
                    range_and_unit(field), field.doc});
  }
}

// Returns the table of the keys below a section or an item of a list.
std::string key_table(const std::vector<Field>& fields, void* object, const std::string& prefix,
                      Rows first = {}) {
  first.insert(first.begin(), {"Key", "Type", "Default", "Range", ""});
  collect(fields, object, prefix, first);
  return table(first);
}

std::string section_page(const Field& section, void* object) {
  std::string text = "\n## " + section.key + "\n\n" + section.doc;
  if (!section.shorthand.empty())
    text += " `" + section.key + ": X` is short for `" + section.key + ": {" + section.shorthand + ": X}`.";
  text += "\n\n" + key_table(section.fields, section.member(object), section.key + ".");
  for (const Field& field : section.fields) {
    if (field.kind != FieldKind::sections || !field.required) continue;
    field.resize(section.member(object), 1);
    const std::string list = section.key + "." + field.key;
    text += "\nEach of `" + list + "`, and of the other lists of files here:\n\n" +
            key_table(field.fields, field.element(section.member(object), 0), list + "[].");
  }
  return text;
}

std::string list_page(const Field& list, void* object) {
  list.resize(object, 1);
  return "\n## " + list.key + "\n\n" + list.doc + " An item `X` is short for `{" + list.shorthand + ": X}`.\n\n" +
         key_table(list.fields, list.element(object, 0), list.key + "[].");
}

constexpr const char* kIntroduction = R"(# The job file

One YAML or JSON file describes one run; the keys are the same in both. This page is written from the tables in
`core/job/fields/` (`forge schema --docs > docs/job.md`). `forge init` writes a file to start from, and
`schemas/job.schema.json` gives editors completion: begin the file with
`# yaml-language-server: $schema=PATH/job.schema.json`.

- **Checked whole.** `forge validate` reports every fault at once, each with file, line and column. No key is ignored.
- **Not set.** `null` and a blank value mean "not set": the default holds. `auto` is decided by the plan, with its
  reason (`forge plan`).
- **Precedence.** default, then the files of `extends` in their order, then the file itself, then `--set key=value`.
  Maps merge; lists and everything else replace. `adapter: none` drops the adapter of a base as a whole.
- **Paths** are relative to the file that states them, in `--set` to the working directory; `~/` is the home folder.
- **Environment.** `${env:NAME}` and `${env:NAME:-default}` in any text; `$${` is a literal `${`. Values that look
  secret are never shown.
- **YAML.** `true` and `false` are the only switches. `1e-4`, `5e-5`, `.5` are numbers; `010`, `0x10`, `1_000`, `.nan`
  are refused. Text that looks like a number or switch stands in quotes. Quotes close on their line. No anchors,
  aliases, tags or merge keys; use `extends`.
- **Sizes and times.** Bytes: `1073741824`, `24GiB`, `80GB`. Time: seconds, `90s`, `30m`, `1h30m`.
)";

std::string foreign_page() {
  // Names are grouped by forge's key, in table order.
  std::map<std::string, std::vector<std::string>> names;
  std::vector<std::string> order;
  for (const ForeignRow& row : foreign_rows()) {
    if (row.key.empty()) continue;
    if (!names.contains(row.key)) order.push_back(row.key);
    for (const std::string& key : row.keys)
      names[row.key].push_back("`" + (key[0] == '/' ? key.substr(1) : key) + "`");
  }
  Rows rows{{"Here", "Elsewhere"}};
  for (const std::string& key : order) rows.push_back({"`" + key + "`", join(names[key], ", ")});
  return "\n## Names in other tools\n\nforge takes only its own names. `forge validate` says for each key of another tool "
         "what it is here, with the value it needs, or why forge has none ([the table]"
         "(../core/job/foreign/keys.txt)):\n\n" + table(rows);
}

}  // namespace

std::string job_reference_markdown() {
  Job job;
  const std::vector<std::string> extends{
      "`extends`", "file or list of files", "not set", "",
      "Job files to inherit from. Later files override earlier ones, and this file overrides all."};
  std::vector<Field> leaves;
  std::string sections;
  for (const Field& field : job_fields()) {
    if (field.kind == FieldKind::section)
      sections += section_page(field, &job);
    else if (field.kind == FieldKind::sections)
      sections += list_page(field, &job);
    else
      leaves.push_back(field);
  }
  return kIntroduction + std::string("\n## Top level\n\n") + key_table(leaves, &job, "", {extends}) + sections +
         foreign_page();
}

}  // namespace forge
