#include "core/job/rules.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

#include "core/job/names.h"
#include "core/lib/base/printable.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

bool is_header_name(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

class RewardRules : RuleFaults {
 public:
  using RuleFaults::RuleFaults;

  void check() {
    for (size_t i = 0; i < job_.rewards.size(); ++i) {
      at_ = "rewards[" + std::to_string(i) + "]";
      const RewardConfig& reward = job_.rewards[i];
      keys_of_other_types(find_field("rewards")->fields, at_ + ".", name_of(reward.type()));
      needed(reward);
      values(reward);
      name(i);
      if (reward.needs) gate(i);
    }
  }

 private:
  // Adds a fault about a key of the reward; at its type for a key that is not given.
  void fault(const std::string& key, std::string message, std::string hint = "") {
    auto found = parsed_.given.find(at_ + "." + key);
    if (found == parsed_.given.end()) found = parsed_.given.find(at_ + ".type");
    faults_.add(found == parsed_.given.end() ? file_ : found->second, at_ + "." + key, std::move(message),
                std::move(hint));
  }

  void needed(const RewardConfig& reward) {
    const std::string type = name_of(reward.type());
    auto need = [&](bool there, const char* key, const char* hint) {
      if (!there) fault(key, "missing: " + type + " needs it", hint);
    };
    if (const auto* regex = reward.find<RegexReward>())
      need(regex->pattern.has_value(), "pattern", "write pattern: '\\d+'");
    if (const auto* json = reward.find<JsonSchemaReward>()) need(json->schema.has_value(), "schema", "write schema: FILE");
    if (const auto* tags = reward.find<TagsReward>()) need(!tags->tags.empty(), "tags", "write tags: [think, answer]");
    if (const auto* choice = reward.find<ChoiceReward>())
      need(choice->choices.size() > 1, "choices", "write choices: [A, B, C, D]");
    if (const auto* command = reward.find<CommandReward>())
      need(!command->command.empty(), "command", "write command: [python3, reward.py]");
    if (const auto* http = reward.find<HttpReward>())
      need(http->url.has_value(), "url", "write url: http://localhost:8000/score");
    if (const auto* model = reward.find<ModelReward>()) need(model->path.has_value(), "path", "write path: FOLDER");
    if (const auto* contains = reward.find<ContainsReward>())
      need(!contains->all.empty() || !contains->none.empty(), "all", "write all: [TEXT], none: [TEXT], or both");
    if (const auto* length = reward.find<LengthReward>())
      need(length->min || length->max || length->target, "max", "write max: 100, min, or target: COLUMN");
    if (const auto* overlong = reward.find<OverlongReward>()) {
      need(overlong->max.has_value(), "max", "write the limit of completion tokens");
      need(overlong->buffer > 0, "buffer", "write buffer: 100");
    }
  }

  void values(const RewardConfig& reward) {
    if (const auto* length = reward.find<LengthReward>()) {
      if (length->min && length->max && *length->min > *length->max)
        fault("min", std::to_string(*length->min) + " is more than max, " + std::to_string(*length->max));
      if (length->target && (length->min || length->max))
        fault("target", length->min ? "min is set too" : "max is set too", "keep one of them");
    }
    if (const auto* overlong = reward.find<OverlongReward>(); overlong && overlong->max && overlong->buffer > *overlong->max)
      fault("buffer", std::to_string(overlong->buffer) + " is more than max, " + std::to_string(*overlong->max));
    if (const auto* http = reward.find<HttpReward>()) {
      if (const std::string wrong = header_fault(http->headers); !wrong.empty()) fault("headers", wrong);
      if (http->url && !starts_with(*http->url, "http://") && !starts_with(*http->url, "https://"))
        fault("url", "\"" + *http->url + "\" is not a URL", "write http:// or https:// in front");
    }
    twice("tags", reward.as<TagsReward>().tags);
    twice("choices", reward.as<ChoiceReward>().choices);
    for (const std::string& tag : reward.as<TagsReward>().tags)
      if (tag.find_first_of("<>/ \t\n") != std::string::npos)
        fault("tags", "\"" + tag + "\" is not a name", "write tags without brackets: [think, answer]");
    for (const std::string& variable : reward.as<CommandReward>().environment)
      if (variable.find('=') != std::string::npos)
        fault("environment", "\"" + variable + "\" is not a name",
              "name the variable; its value is taken from forge's own environment");
    extract(reward);
  }
  void extract(const RewardConfig& reward) {
    const std::string& how = reward.as<Extracting>().extract;
    for (const char* word : {"auto", "whole", "last", "boxed"})
      if (how == word) {
        if (reward.type() == RewardType::exact && how == "last")
          fault("extract", "last means the last number, formula or letter, and exact looks for none",
                "write \"after TEXT\", \"tag NAME\" or \"regex PATTERN\"");
        return;
      }
    for (const char* form : {"after ", "tag ", "regex "})
      if (starts_with(how, form) && how.size() > std::string_view(form).size()) return;
    const std::vector<std::string> known{"auto",       "whole",    "last",         "boxed",
                                         "after TEXT", "tag NAME", "regex PATTERN"};
    fault("extract", "\"" + how + "\" is not " + alternatives(known),
          nearest(how, known).empty() ? "" : "did you mean \"" + nearest(how, known) + "\"?");
  }
  void twice(const std::string& key, const std::vector<std::string>& words) {
    std::set<std::string> seen;
    for (const std::string& word : words)
      if (!seen.insert(word).second) fault(key, "\"" + word + "\" appears twice");
  }

  void name(size_t i) {
    const std::string& name = job_.rewards[i].name;
    for (size_t other = 0; other < i; ++other)
      if (job_.rewards[other].name == name)
        return fault("name", "\"" + name + "\" is already the name of rewards[" + std::to_string(other) + "]",
                     "give each reward a name of its own");
    if (name.find_first_of(" \t\n/.") != std::string::npos)
      fault("name", "\"" + name + "\" contains a space, a dot or a slash",
            "metrics are named after it: use letters, digits, _ and -");
  }
  // Checks `requires`. It may only name an earlier reward, so that there are no cycles.
  void gate(size_t i) {
    std::vector<std::string> all;
    for (const RewardConfig& reward : job_.rewards) all.push_back(reward.name);
    const std::string& wanted = *job_.rewards[i].needs;
    const auto found = static_cast<size_t>(std::find(all.begin(), all.end(), wanted) - all.begin());
    if (found < i) return;
    const bool later = found < all.size();
    fault("requires",
          later ? "\"" + wanted + "\" is not listed before this one"
                : "\"" + wanted + "\" is not the name of a reward" + did_you_mean(wanted, all),
          later ? "move that one up" : "the names are " + join(all, ", "));
  }

  std::string at_;
};

}  // namespace

std::string header_fault(const std::map<std::string, std::string>& headers) {
  for (const auto& [name, value] : headers) {
    if (!is_header_name(name)) return show_name(name) + " is not a header name, expected letters, digits and -";
    if (std::any_of(value.begin(), value.end(), [](unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7f; }))
      return "the value of " + name + " contains a line break or another control character, which headers cannot";
  }
  return "";
}

void check_rewards(const Job& job, const Parsed& parsed, const Position& file, Diagnostics& faults) {
  RewardRules(job, parsed, file, faults).check();
}

}  // namespace forge
