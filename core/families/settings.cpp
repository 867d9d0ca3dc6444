#include "core/families/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/text.h"

namespace forge {
namespace {

std::string shown(const Json& value) {
  std::string text = dump_json(value);
  return text.size() <= 60 ? text : fmt::format("{:.57}...", text);
}

bool empty(const Json& value) {
  return value.is_null() || (value.is_boolean() && !value.get<bool>()) ||
         (value.is_string() && value.get_ref<const std::string&>().empty()) ||
         ((value.is_array() || value.is_object()) && value.empty());
}

}  // namespace

Settings::Settings(const Json& json, std::string name) : json_(json), name_(std::move(name)) {
  if (!json.is_object()) throw Error(ErrorKind::environment, name_ + ": expected a JSON object");
}

const std::string& Settings::spelled(const std::string& key) const {
  const auto found = spelling_.find(key);
  return found == spelling_.end() || json_.contains(key) ? key : found->second;
}

const Json* Settings::find(const std::string& key) {
  read_.insert(spelled(key));
  auto found = json_.find(spelled(key));
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

int64_t Settings::integer(const std::string& key, int64_t lowest, int64_t highest,
                          std::optional<int64_t> fallback) {
  const Json* value = find(key);
  if (!value && fallback) return *fallback;
  const std::string range = "an integer from " + std::to_string(lowest) + " to " + std::to_string(highest);
  if (!value) {
    broken(key, "is missing, expected " + range);
    return lowest;
  }
  if (!value->is_number_integer() || (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX) ||
      value->get<int64_t>() < lowest || value->get<int64_t>() > highest) {
    broken(key, "is " + shown(*value) + ", expected " + range);
    return lowest;
  }
  return value->get<int64_t>();
}

double Settings::number(const std::string& key, double lowest, double highest,
                        std::optional<double> fallback) {
  const Json* value = find(key);
  if (!value && fallback) return *fallback;
  const std::string range = "a number from " + format_number(lowest) + " to " + format_number(highest);
  if (!value) {
    broken(key, "is missing, expected " + range);
    return lowest;
  }
  const double read = value->is_number() ? value->get<double>() : std::nan("");
  if (!(read >= lowest && read <= highest)) {
    broken(key, "is " + shown(*value) + ", expected " + range);
    return lowest;
  }
  return read;
}

std::vector<double> Settings::numbers(const std::string& key, int64_t count, double lowest, double highest) {
  const Json* value = find(key);
  const auto fits = [&](const Json& number) {
    return number.is_number() && number.get<double>() >= lowest && number.get<double>() <= highest;
  };
  if (value && value->is_array() && static_cast<int64_t>(value->size()) == count &&
      std::all_of(value->begin(), value->end(), fits))
    return value->get<std::vector<double>>();
  broken(key, (value ? "is " + shown(*value) : "is missing") + ", expected " + std::to_string(count) +
                  " numbers from " + format_number(lowest) + " to " + format_number(highest));
  return std::vector<double>(static_cast<size_t>(std::max<int64_t>(count, 0)), lowest);
}

bool Settings::flag(const std::string& key, bool fallback) {
  const Json* value = find(key);
  if (!value) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  broken(key, "is " + shown(*value) + ", expected true or false");
  return fallback;
}

std::string Settings::text(const std::string& key, const std::string& fallback) {
  const Json* value = find(key);
  if (!value) return fallback;
  if (value->is_string()) return value->get<std::string>();
  broken(key, "is " + shown(*value) + ", expected a text");
  return fallback;
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

void Settings::refuse_unread(bool (*harmless)(const std::string& key)) {
  for (const auto& [key, value] : json_.items()) {
    if (read_.count(key) || harmless(key) || empty(value)) continue;
    unsupported(key, "is " + shown(value) + ", a setting forge does not know and would have to ignore");
  }
}

void Settings::absorb(Settings& nested, bool (*harmless)(const std::string& key)) {
  nested.refuse_unread(harmless);
  broken_.insert(broken_.end(), nested.broken_.begin(), nested.broken_.end());
  unsupported_.insert(unsupported_.end(), nested.unsupported_.begin(), nested.unsupported_.end());
}

void Settings::finish(bool (*harmless)(const std::string& key)) {
  refuse_unread(harmless);
  if (!broken_.empty()) {
    broken_.insert(broken_.end(), unsupported_.begin(), unsupported_.end());
    throw KeyError(ErrorKind::environment, broken_, "the model's own config.json states these values");
  }
  if (unsupported_.empty()) return;
  throw KeyError(ErrorKind::job, unsupported_,
                 "use another model, or remove a setting from config.json if it does not change what the "
                 "model computes");
}

}  // namespace forge
