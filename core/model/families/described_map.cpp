#include "core/model/families/described_map.h"

#include <algorithm>

#include "core/job/scalars.h"
#include "core/lib/base/text.h"
#include "core/lib/base/typo.h"

namespace forge {

Json scalar_of(const Node& node) {
  if (const auto flag = read_boolean(node); flag.value) return *flag.value;
  if (const auto integer = read_integer(node); integer.value) return *integer.value;
  if (const auto number = read_number(node); number.value) return *number.value;
  return node.scalar;
}

DescribedMap::DescribedMap(const Node& node, std::string prefix, Diagnostics& faults)
    : node_(node), prefix_(std::move(prefix)), faults_(faults) {
  if (node.is_map()) return;
  const std::string key = prefix_.empty() ? "" : prefix_.substr(0, prefix_.size() - 1);
  faults_.add(node.at, key, "is " + describe(node) + ", expected a map of keys");
}

void DescribedMap::fault(const Position& at, const std::string& key, const std::string& what,
                         const std::string& hint) {
  const std::string path = prefix_ + key;
  faults_.add(at, path.ends_with('.') ? path.substr(0, path.size() - 1) : path, what, hint);
}

const Node* DescribedMap::take(const std::string& key) {
  taken_.push_back(key);
  const Node* found = node_.find(key);
  return found && !found->is_null() ? found : nullptr;
}

template <class Value, class Read>
std::optional<Value> DescribedMap::read(const std::string& key, Read read) {
  const Node* found = take(key);
  if (!found) return std::nullopt;
  Reading<Value> reading = read(*found);
  if (!reading.value) fault(found->at, key, reading.message(), reading.hint);
  return reading.value;
}

template <class Value>
std::optional<Value> DescribedMap::within(const std::string& key, const std::optional<Value>& value,
                                          Value least, Value most) {
  if (!value || (*value >= least && *value <= most)) return value;
  fault(node_.find(key)->at, key,
        node_.find(key)->scalar + " is outside " + format_number(static_cast<double>(least)) +
            " to " + format_number(static_cast<double>(most)));
  return std::nullopt;
}

std::optional<std::string> DescribedMap::text(const std::string& key) {
  return read<std::string>(key, read_text);
}

std::optional<int64_t> DescribedMap::integer(const std::string& key, int64_t least, int64_t most) {
  return within(key, read<int64_t>(key, read_integer), least, most);
}

std::optional<double> DescribedMap::number(const std::string& key, double least, double most) {
  return within(key, read<double>(key, read_number), least, most);
}

std::optional<bool> DescribedMap::flag(const std::string& key) {
  return read<bool>(key, read_boolean);
}

std::vector<std::string> DescribedMap::texts(const std::string& key) {
  const Node* found = take(key);
  std::vector<std::string> all;
  if (!found) return all;
  if (found->is_map()) {
    fault(found->at, key, "is a map of keys, expected a text or a list of texts");
    return all;
  }
  for (const Node& item : found->is_list() ? found->items : std::vector<Node>{*found}) {
    const Reading<std::string> text = read_text(item);
    if (text.value)
      all.push_back(*text.value);
    else
      fault(item.at, key, text.message(), text.hint);
  }
  return all;
}

Json DescribedMap::value(const std::string& key) {
  const Node* found = take(key);
  if (!found) return nullptr;
  if (found->is_scalar()) return scalar_of(*found);
  fault(found->at, key, "is " + describe(*found) + ", expected a flag, a number or a text");
  return nullptr;
}

std::optional<size_t> DescribedMap::choice(const std::string& key,
                                           const std::vector<std::string>& words) {
  const std::optional<std::string> word = text(key);
  if (!word) return std::nullopt;
  const auto found = std::ranges::find(words, *word);
  if (found != words.end()) return static_cast<size_t>(found - words.begin());
  const std::string close = likely_meant(*word, words);
  fault(node_.find(key)->at, key,
        "\"" + word->substr(0, 60) + "\" is not one of " + join(words, ", "),
        close.empty() ? "" : "did you mean \"" + close + "\"?");
  return std::nullopt;
}

void DescribedMap::require(const std::string& key, bool is_there, const std::string& what) {
  if (!is_there && node_.is_map() && !node_.find(key)) fault(node_.at, key, "is missing: " + what);
}

void DescribedMap::finish() {
  for (const Member& member : node_.members) {
    if (std::ranges::count(taken_, member.key) > 0) continue;
    const std::string close = likely_meant(member.key, taken_);
    fault(member.key_at, member.key.substr(0, 60), "unknown key",
          close.empty() ? "there are " + join(taken_, ", ") : "did you mean \"" + close + "\"?");
  }
}

}  // namespace forge
