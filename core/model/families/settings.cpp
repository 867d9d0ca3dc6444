#include "core/model/families/settings.h"


#include <algorithm>

#include "core/lib/base/format.h"
#include "core/lib/base/text.h"
#include "core/lib/io/python_json.h"
#include "core/model/families/config_keys.h"

namespace forge {
namespace {

std::string shown(const Json& value) {
  std::string text = dump_python_json(value);
  return text.size() <= 60 ? text : fmt::format("{:.57}...", text);
}

bool within(const Json& number, double lowest, double highest) {
  return number.is_number() && number.get<double>() >= lowest && number.get<double>() <= highest;
}

bool empty(const Json& value) {
  return value.is_null() || value == false || value == "" ||
         (value.is_structured() && value.empty());
}

// Keys that forge reads even if the class does not: tokens, labels and initial weights.
const std::set<std::string> kOwn{"architectures", "model_type", "bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id",
                                 "id2label", "label2id", "num_labels", "problem_type", "initializer_range", "init_std",
                                 // transformers has constants here; gpt-oss' own code and other
                                 // readers take the file's.
                                 "swiglu_limit", "swiglu_alpha",
                                 // of OPT; a leading underscore elsewhere is no setting
                                 "_remove_final_layer_norm"};

}  // namespace

Settings::Settings(const Json& json, std::string name) : json_(json), name_(std::move(name)) {
  if (!json.is_object()) throw Error(ErrorKind::environment, name_ + ": expected a JSON object");
}

std::vector<std::string> Settings::names_of(const std::string& key) const {
  const auto spelling = spelling_.find(key);
  std::vector<std::string> names{key.starts_with('.')          ? architecture_ + key
                                 : spelling == spelling_.end() ? key
                                                               : spelling->second};
  if (!keys_) return names;
  if (const auto alias = keys_->aliases.find(names[0]); alias != keys_->aliases.end()) names.push_back(alias->second);
  for (const auto& [name, stands_for] : keys_->aliases)
    if (stands_for == names[0]) names.push_back(name);
  return names;
}

std::string Settings::spelled(const std::string& key) const {
  const std::vector<std::string> names = names_of(key);
  const auto held = std::find_if(names.begin(), names.end(),
                                 [&](const std::string& name) { return json_.contains(name) && !unread_by_class(name); });
  return held == names.end() ? names[0] : *held;
}

const Json* Settings::find(const std::string& key) {
  const Json* value = nullptr;
  std::string first;
  for (const std::string& name : names_of(key)) {
    if (unread_by_class(name)) continue;
    const bool new_name = read_.insert(name).second;
    const auto found = json_.find(name);
    if (found == json_.end() || found->is_null()) continue;
    if (value && *found != *value && new_name)
      broken(name, "is " + shown(*found) + " and " + first + " is " + shown(*value) + ", two names of one setting");
    if (!value) value = &*found, first = name;
  }
  return value;
}

template <class T, class Fits>
T Settings::bounded(const std::string& key, T lowest, std::optional<T> fallback, const std::string& expected,
                    Fits fits) {
  const Json* value = find(key);
  if (!value && fallback) return *fallback;
  if (value && fits(*value)) return value->get<T>();
  broken(key, (value ? "is " + shown(*value) : "is missing") + ", expected " + expected);
  return lowest;
}

int64_t Settings::integer(const std::string& key, int64_t lowest, int64_t highest,
                          std::optional<int64_t> fallback) {
  const std::string range = "an integer from " + std::to_string(lowest) + " to " + std::to_string(highest);
  return bounded(key, lowest, fallback, range, [&](const Json& value) {
    const bool past = value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX;
    return value.is_number_integer() && !past && value.get<int64_t>() >= lowest && value.get<int64_t>() <= highest;
  });
}

double Settings::number(const std::string& key, double lowest, double highest,
                        std::optional<double> fallback) {
  const std::string range = "a number from " + format_number(lowest) + " to " + format_number(highest);
  return bounded(key, lowest, fallback, range, [&](const Json& value) { return within(value, lowest, highest); });
}

std::vector<double> Settings::numbers(const std::string& key, int64_t count, double lowest, double highest) {
  const std::vector<double> stand_in(static_cast<size_t>(std::max<int64_t>(count, 0)), lowest);
  const std::string expected =
      std::to_string(count) + " numbers from " + format_number(lowest) + " to " + format_number(highest);
  return bounded<std::vector<double>>(key, stand_in, {}, expected, [&](const Json& value) {
    const auto fits = [&](const Json& number) { return within(number, lowest, highest); };
    return value.is_array() && static_cast<int64_t>(value.size()) == count &&
           std::all_of(value.begin(), value.end(), fits);
  });
}

bool Settings::flag(const std::string& key, bool fallback) {
  return bounded<bool>(key, fallback, fallback, "true or false", [](const Json& value) { return value.is_boolean(); });
}

std::string Settings::text(const std::string& key, const std::string& fallback) {
  return bounded<std::string>(key, fallback, fallback, "a text", [](const Json& value) { return value.is_string(); });
}

std::vector<int64_t> Settings::ids(const std::string& key) {
  const Json* value = find(key);
  if (!value) return {};
  std::vector<int64_t> ids;
  for (const Json& id : value->is_array() ? *value : Json::array({*value})) {
    if (!id.is_number_integer()) {
      broken(key, "is " + shown(*value) + ", expected a token id or a list of them");
      return {};
    }
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

void Settings::broken(const std::string& key, const std::string& what) {
  broken_.push_back({"", (key.empty() ? "" : spelled(key) + " ") + what, name_});
}

void Settings::unsupported(const std::string& key, const std::string& what) {
  unsupported_.push_back({"", spelled(key) + " " + what, name_});
}

void Settings::must_be(const std::string& key, const Json& expected, const std::string& why) {
  const Json* value = find(key);
  if (!value || *value == expected) return;
  // 0.0 and 0 are the same setting.
  if (value->is_number() && expected.is_number() && value->get<double>() == expected.get<double>()) return;
  unsupported(key, "is " + shown(*value) + ", forge computes only " + shown(expected) + " (" + why + ")");
}

bool Settings::unread_by_class(const std::string& key) const {
  if (!keys_ || kOwn.count(key) > 0 || std::count(also_.begin(), also_.end(), key) > 0)
    return false;
  const auto alias = keys_->aliases.find(key);
  return keys_->reads.count(key) == 0 && (alias == keys_->aliases.end() || keys_->reads.count(alias->second) == 0);
}

void Settings::judge_unread(bool (*harmless)(const std::string& key)) {
  for (const auto& [key, value] : json_.items()) {
    if (read_.count(key) || harmless(key) || value.is_null()) continue;
    const bool unread = unread_by_class(key);
    if ((unread || !keys_) && empty(value)) continue;
    if (!unread) {
      const std::string why = keys_ ? "which " + keys_->architecture + " reads and forge does not compute"
                                    : "a setting forge does not know and would have to ignore";
      unsupported_.push_back({"", key + " is " + shown(value) + ", " + why, name_});
      continue;
    }
    const auto idle = keys_->idle.find(key);
    if (idle == keys_->idle.end() || idle->second != value) ignored_.push_back(key + " (" + shown(value) + ")");
  }
}

void Settings::absorb(Settings& nested, const std::string& prefix, bool (*harmless)(const std::string& key)) {
  for (const auto& [key, value] : nested.json_.items()) {
    if (nested.read_.count(key) || harmless(key) || empty(value)) continue;
    if (value.is_object())
      nested.unsupported(key, "is " + shown(value) + ", settings that forge does not know and would have to ignore");
    else
      ignored_.push_back(prefix + "." + key + " (" + shown(value) + ")");
  }
  broken_.insert(broken_.end(), nested.broken_.begin(), nested.broken_.end());
  unsupported_.insert(unsupported_.end(), nested.unsupported_.begin(), nested.unsupported_.end());
}

void Settings::finish(bool (*harmless)(const std::string& key), const char* remedy) {
  judge_unread(harmless);
  if (!broken_.empty()) {
    broken_.insert(broken_.end(), unsupported_.begin(), unsupported_.end());
    throw KeyError(ErrorKind::environment, broken_, remedy ? remedy : "the model's own config.json states these values");
  }
  if (unsupported_.empty()) return;
  const std::string remark = remark_.empty() ? "" : remark_ + "; ";
  throw KeyError(ErrorKind::job, unsupported_,
                 remark + (remedy ? remedy
                                  : "use another model, or remove a setting from config.json if it does not change what the "
                                    "model computes"));
}

}  // namespace forge
