#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/command.h"
#include "core/job/field.h"
#include "core/job/foreign.h"
#include "core/lib/base/error.h"
#include "core/lib/base/printable.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

constexpr Option kCommonOptions[] = {
    {"--json", "", "print JSON instead of text"},
    {"--quiet", "", "print only data and errors"},
};

std::vector<Option> all_options(const Command& command) {
  std::vector<Option> options(command.options.begin(), command.options.end());
  options.insert(options.end(), std::begin(kCommonOptions), std::end(kCommonOptions));
  return options;
}

bool is_switch(const Option& option) { return option.value[0] == '\0'; }

std::string title_of(const Command& command) { return std::string("forge ") + command.name; }

Error usage_error(const Command& command, const std::string& message) {
  return Error(ErrorKind::usage, message).hint("see " + title_of(command) + " --help");
}

// Returns " (forge plan has it)" for an option of other commands, or nothing.
std::string owners_of(const std::string& option) {
  std::vector<std::string> owners;
  for (const Command* command : commands())
    for (const Option& own : command->options)
      if (option == own.name) owners.push_back(title_of(*command));
  if (owners.empty()) return "";
  return " (" + join(owners, ", ") + (owners.size() > 1 ? " have it)" : " has it)");
}

// Options of other tools that forge does not need, and what to do instead.
constexpr std::pair<const char*, const char*> kOtherOptions[] = {
    {"--resume", "forge run continues an unfinished run by itself"},
    {"--resume-from-checkpoint", "forge run continues an unfinished run by itself"},
    {"--continue", "forge run continues an unfinished run by itself"},
    {"--config", "the job file needs no option: forge run job.yaml"},
    {"--config-file", "the job file needs no option: forge run job.yaml"},
    {"--job", "the job file needs no option: forge run job.yaml"},
    {"--overwrite-output-dir", "--fresh starts over"},
    {"--verbose", "forge plan JOB --all shows every value; a run's own log is RUN/log.txt"},
    {"-v", "forge plan JOB --all shows every value; a run's own log is RUN/log.txt"},
};

// Returns `text` with every `from` replaced by `to`.
std::string with(std::string text, char from, char to) {
  std::replace(text.begin(), text.end(), from, to);
  return text;
}

std::string leaf_of(const std::string& key) { return key.substr(key.rfind('.') + 1); }

// Returns the names under which the table of foreign keys may list an option, most specific first:
// actor.adam.lr, adam.lr, /lr, lr.
std::vector<std::string> foreign_names(std::string name) {
  std::vector<std::string> names;
  for (size_t dot; (dot = name.find('.')) != std::string::npos; name.erase(0, dot + 1)) names.push_back(name);
  names.push_back("/" + name);
  names.push_back(name);
  return names;
}

// Returns the table's answer to another tool's option, with the forge option that sets its
// counterpart.
std::string foreign_help(const ForeignRow& row, const std::string& name, const std::string& value) {
  const std::string hint = foreign_hint(row, name, scalar_node(value, {}, Quoting::either));
  std::string key = row.key;
  const Field* field = key.empty() || key.find("[]") != std::string::npos ? nullptr : find_field(key);
  if (field && field->kind == FieldKind::section && row.short_form && !field->shorthand.empty())
    field = find_field(key += "." + field->shorthand);
  if (!field || field->kind == FieldKind::section) return hint;
  const std::string set = "change a value of the job with --set " + key + "=VALUE";
  return hint == name + " is " + key + " here" ? set : hint + "; " + set;
}

// Returns help for an option that is really a job key, under forge's name or another tool's, by its
// full name or its last component: "write --set train.epochs=2".
std::string key_help(const std::string& option, const std::string& value) {
  const std::string name = with(option.substr(option.find_first_not_of('-')), '-', '_');
  std::vector<std::string> keys, homes;
  for (const std::string& key : dotted_keys(job_fields())) {
    if (find_field(key)->kind == FieldKind::section || inside_list(key)) continue;
    if (key == name || leaf_of(key) == name) keys.push_back(key);
    if (leaf_of(key) == leaf_of(name)) homes.push_back(key);
  }
  const ForeignRow* row = find_foreign_row(foreign_names(name), /*patterns=*/true);
  if (row && keys.size() != 1) return foreign_help(*row, leaf_of(name), value);
  constexpr size_t kMost = 3;  // a plain word such as type says nothing
  const std::vector<std::string>& own = keys.empty() ? homes : keys;
  if (own.empty() || own.size() > kMost) return "";
  return "change a value of the job with --set " + join(own, "=VALUE or --set ") + "=VALUE";
}

// Returns the value that an unknown option is given; "true" for one without.
std::string value_of(const std::vector<std::string>& words, const std::string& option) {
  const size_t equals = option.find('=');
  if (equals != std::string::npos) return option.substr(equals + 1);
  const auto found = std::find(words.begin(), words.end(), option);
  const bool given = found != words.end() && found + 1 != words.end() && !(found + 1)->starts_with("--");
  return given ? *(found + 1) : "true";
}

// Returns what to use instead of an option that no command has; empty if unknown.
std::string instead_of(const Command& command, const std::string& option, const std::string& value) {
  const std::string plain = with(option, '_', '-');
  for (const auto& [other, instead] : kOtherOptions)
    if (plain == other) return instead;
  const bool sets = std::ranges::count(command.options, std::string("--set"), &Option::name) > 0;
  return sets && option.starts_with("--") && option.size() > 2 ? key_help(option, value) : "";
}

void reject_unknown(const Command& command, const std::vector<std::string>& unknown, const std::vector<std::string>& words) {
  if (unknown.empty()) return;
  if (unknown[0][0] != '-') throw usage_error(command, "unexpected argument " + show_name(unknown[0]));
  std::vector<std::string> names;
  for (const Option& option : all_options(command)) names.push_back(option.name);
  std::string name = unknown[0].substr(0, unknown[0].find('='));
  std::string help = owners_of(name);
  if (help.empty()) help = did_you_mean(name, names);
  const std::string instead = help.empty() ? instead_of(command, name, value_of(words, unknown[0])) : "";
  Error error = usage_error(command, title_of(command) + ": unknown option " + name + help);
  throw instead.empty() ? error : Error(error).hint(instead);
}

void check_operands(const Command& command, const std::vector<std::string>& operands) {
  const std::string name = title_of(command);
  auto count = static_cast<int>(operands.size());
  if (count < command.least_operands)
    throw usage_error(command, name + ": expected " + command.operands + ", got nothing");
  if (count > command.most_operands)
    throw usage_error(command, name + ": unexpected argument " + show_name(operands[command.most_operands]));
}

// Names of files, cards and columns are in messages and pages, where a line break would read as a
// line of forge's own.
void require_one_line(const Command& command, const std::string& whose, const std::string& value) {
  if (value.find_first_of("\n\r") == std::string::npos) return;
  throw usage_error(command, title_of(command) + ": " + whose + show_name(value) +
                                 ": a line break in a name, expected none");
}

bool is_text(const Option& option) { return option.value == std::string_view("TEXT") || option.value == std::string_view("KEY=VALUE"); }

std::string option_usage(const Option& option) {
  std::string usage = option.name;
  if (!is_switch(option)) usage += std::string(" ") + option.value;
  return option.repeats ? usage + "…" : usage;
}

}  // namespace

std::optional<Arguments> parse_arguments(const Command& command, const std::vector<std::string>& words) {
  std::vector<Option> options = all_options(command);
  std::vector<std::vector<std::string>> texts(options.size());
  std::vector<std::string> operands;
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  bool help = false;
  app.add_flag("-h,--help", help);
  app.add_option("operands", operands)->expected(0, 1 << 20);
  std::vector<CLI::Option*> parsed;
  for (size_t i = 0; i < options.size(); ++i) {
    if (is_switch(options[i]))
      parsed.push_back(app.add_flag(options[i].name));
    else
      parsed.push_back(app.add_option(options[i].name, texts[i])->allow_extra_args(false));
  }
  std::vector<std::string> reversed(words.rbegin(), words.rend());  // CLI11 pops from the back
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    throw usage_error(command, title_of(command) + ": " + error.what());
  }
  if (help) return std::nullopt;
  reject_unknown(command, app.remaining(), words);
  check_operands(command, operands);
  for (const std::string& operand : operands) require_one_line(command, "", operand);
  std::map<std::string, std::vector<std::string>> values;
  for (size_t i = 0; i < options.size(); ++i) {
    if (!options[i].repeats && texts[i].size() > 1)
      throw usage_error(command, title_of(command) + ": " + options[i].name + " is given twice");
    if (is_switch(options[i]) && parsed[i]->count() > 0) texts[i].push_back("true");
    if (!is_text(options[i]))
      for (const std::string& text : texts[i]) require_one_line(command, std::string(options[i].name) + " ", text);
    values[options[i].name] = texts[i];
  }
  return Arguments(std::move(operands), std::move(values));
}

std::string help_text(const Command& command) {
  const std::string title = title_of(command);
  std::string text = title + ": " + command.summary + "\n\nUsage: " + title;
  if (command.operands[0] != '\0') text += std::string(" ") + command.operands;
  text += " [options]\n\n";
  std::vector<std::vector<std::string>> rows;
  const std::vector<Option> options = all_options(command);
  for (const Option& option : options) rows.push_back({"  " + option_usage(option), option.help});
  const bool repeats = std::ranges::any_of(options, &Option::repeats);
  return text + format_table(rows) + (repeats ? "\n… after an option: it may be given several times.\n" : "");
}

bool Arguments::has(const std::string& name) const { return !texts(name).empty(); }

const std::vector<std::string>& Arguments::texts(const std::string& name) const {
  auto found = values_.find(name);
  FORGE_CHECK(found != values_.end(), "the command has no option " << name);
  return found->second;
}

std::optional<std::string> Arguments::text(const std::string& name) const {
  if (!has(name)) return std::nullopt;
  return texts(name)[0];
}

int64_t Arguments::integer(const std::string& name, int64_t otherwise, int64_t least, int64_t most) const {
  return has(name) ? integers(name, least, most)[0] : otherwise;
}

std::vector<int64_t> Arguments::integers(const std::string& name, int64_t least, int64_t most) const {
  std::vector<int64_t> values;
  for (const std::string& word : texts(name)) {
    int64_t value = 0;
    bool whole = CLI::detail::lexical_cast(word, value);
    if (!whole || value < least || value > most)
      throw Error(ErrorKind::usage, name + " " + word + ": expected a whole number from " +
                                        std::to_string(least) +
                                        (most == INT64_MAX ? " on" : " to " + std::to_string(most)));
    values.push_back(value);
  }
  return values;
}

double Arguments::number(const std::string& name, double otherwise, double least, double most) const {
  if (!has(name)) return otherwise;
  const std::string& word = texts(name)[0];
  double value = 0;
  bool whole = CLI::detail::lexical_cast(word, value);
  if (!whole || !(value >= least && value <= most))  // also rejects NaN
    throw Error(ErrorKind::usage, name + " " + word + ": expected a number from " + format_number(least) +
                                      " to " + format_number(most));
  return value;
}

}  // namespace forge
