// Checks the table of other tools' keys: all that its rows say about forge is true.
#include "core/job/foreign.h"

#include <regex>
#include <set>

#include "core/job/field.h"
#include "core/job/parse.h"
#include "core/lib/base/text.h"
#include "tests/test.h"

using namespace forge;

namespace {

bool is_leaf_of_a_job(const std::string& name) {
  for (const std::string& dotted : dotted_keys(job_fields()))
    if (dotted.substr(dotted.rfind('.') + 1) == name) return true;
  return false;
}

const Field* field_named(std::string key) {
  if (size_t item = key.find("[]"); item != std::string::npos) key.erase(item, 2);
  const Field* field = find_field(key);
  const bool short_form = field && field->kind == FieldKind::section && !field->shorthand.empty();
  return short_form ? find_field(key + "." + field->shorthand) : field;
}

// Returns why `key: word` would be refused; empty if it is valid.
std::string refusal(const std::string& key, const std::string& word) {
  const Field* field = field_named(key);
  if (!field) return key + " is no key of forge";
  return value_problem(*field, key, scalar_node(word, {}, Quoting::either));
}

std::string sibling(const std::string& key, const std::string& name) {
  return name.find('.') == std::string::npos ? key.substr(0, key.rfind('.') + 1) + name : name;
}

// Checks texts such as "lora, with adapter.use_dora: true" or "constant, with warmup_steps".
void check_written(const std::string& key, std::string text) {
  text = std::regex_replace(text, std::regex(R"( \(.*\))"), "");
  const size_t with = text.find(", with ");
  CHECK(refusal(key, text.substr(0, with)) == "");
  if (with == std::string::npos) return;
  const std::string other = text.substr(with + 7);
  const size_t colon = other.find(": ");
  const std::string name = sibling(key, other.substr(0, colon));
  INFO(name);
  CHECK(field_named(name) != nullptr);
  if (colon != std::string::npos) CHECK(refusal(name, other.substr(colon + 2)) == "");
}

std::vector<std::smatch> all_matches(const std::string& text, const std::regex& pattern) {
  return {std::sregex_iterator(text.begin(), text.end(), pattern), std::sregex_iterator()};
}

// Checks the dotted keys, "KEY: VALUE", {type: …} of a reward and {path: …} of a data file in a
// sentence.
void check_sentence(const std::string& text) {
  static const std::regex dotted(
      R"(\b((?:model|adapter|objective|data|train|optimizer|schedule|checkpoint|eval|log|hardware|rewards|reward_mix|rollout)(?:\.[a-z_]+)+)(?:: ([\w+]+))?)");
  static const std::regex item(R"(\{(type|path): ([\w]+)([^}]*)\})"), member(R"(, ([a-z_]+):)");
  for (const std::smatch& found : all_matches(text, dotted)) {
    const std::string key = found[1], word = found[2];
    INFO(key << ": " << word);
    CHECK(field_named(key) != nullptr);
    if (!word.empty()) CHECK(refusal(key, word) == "");
  }
  for (const std::smatch& found : all_matches(text, item)) {
    const std::string list = found[1] == "type" ? "rewards." : "data.train.", rest = found[3];
    if (found[1] == "type") CHECK(refusal("rewards.type", found[2]) == "");
    for (const std::smatch& other : all_matches(rest, member))
      CHECK(find_field(list + other[1].str()) != nullptr);
  }
}

void check_rule(const std::string& key, const ValueRule& rule) {
  INFO(key << ": " << join(rule.values, ", ") << " -> " << rule.text);
  check_sentence(rule.text);
  if (!rule.sentence && !rule.text.empty()) check_written(key, rule.text);
}

}  // namespace

TEST_CASE("every row of the table names keys of forge that exist") {
  std::set<std::string> seen;
  for (const ForeignRow& row : foreign_rows()) {
    std::string key = row.key;
    if (size_t item = key.find("[]"); item != std::string::npos) key.erase(item, 2);
    INFO(join(row.keys, ", ") << " -> " << key);
    CHECK((key.empty() || find_field(key) != nullptr));
    for (const std::string& name : row.keys) {
      INFO(name);
      CHECK(seen.insert(name).second);
      CHECK(find_field(name) == nullptr);
    }
  }
  CHECK(seen.size() > 1000);
}

TEST_CASE("values in the table belong to keys of forge, and what is to be written is one of its values") {
  for (const std::string& key : dotted_keys(job_fields())) {
    const Field* field = find_field(key);
    if (field->kind != FieldKind::choice) continue;
    for (const std::string& word : field->choices) {
      INFO(key << ": " << word);
      CHECK(foreign_value_hint(key, word).find("write ") == std::string::npos);
    }
  }
  CHECK(foreign_value_hint("adapter.type", "dora") == "write lora, with adapter.use_dora: true");
  CHECK(foreign_value_hint("data.eval[2].format", "completion") == "write text");
  CHECK(foreign_value_hint("adapter.type", "lora").empty());
}

TEST_CASE("a key of forge is never answered by another tool's meaning of the same name") {
  for (const ForeignRow& row : foreign_rows())
    for (const std::string& name : row.keys) {
      if (name.find_first_of("/.*") != std::string::npos || !is_leaf_of_a_job(name)) continue;
      INFO(name << " is forge's own, so the row must lead there or stand below a section");
      CHECK(row.key.substr(row.key.rfind('.') + 1) == name);
    }
}

TEST_CASE("a sentence of the table that lists what forge has leaves nothing out") {
  // "forge has A, B and C": the words of a choice that begins with A and B.
  static const std::regex list(R"(forge has ((?:[a-z_0-9]+, )*[a-z_0-9]+ and [a-z_0-9]+))");
  int64_t lists = 0;
  const auto check = [&](const std::string& key, const std::string& text) {
    for (const std::smatch& found : all_matches(text, list)) {
      const Field* field = find_field(key);
      if (!field || field->kind != FieldKind::choice) continue;
      const std::string said = " " + std::regex_replace(found[1].str(), std::regex(","), "") + " ";
      ++lists;
      for (const std::string& choice : field->choices) {
        INFO(key << ": " << text);
        if (choice != "none") CHECK_THAT(said, Catch::Contains(" " + choice + " "));
      }
    }
  };
  for (const std::string& key : dotted_keys(job_fields()))
    for (const ValueRule& rule : foreign_value_rules(key)) check(key, rule.text);
  CHECK(lists > 3);
}

TEST_CASE("keys and values that the table proposes are taken by forge") {
  for (const ForeignRow& row : foreign_rows()) {
    INFO(join(row.keys, ", ") << ": " << row.note);
    check_sentence(row.note);
    for (const ValueRule& rule : row.rules) check_rule(row.key, rule);
  }
  for (const std::string& key : dotted_keys(job_fields()))
    for (const ValueRule& rule : foreign_value_rules(key)) check_rule(key, rule);
  CHECK(foreign_value_rules("optimizer.type").size() > 5);
}
