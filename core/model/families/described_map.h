#pragma once
// One map of a description: each key is taken once, with its type and range, and what nothing took
// is refused.
//
//   DescribedMap map(root, "", faults);
//   d.name = map.text("name").value_or("");
//   map.finish();
#include <optional>
#include <string>
#include <vector>

#include "core/job/diagnostics.h"
#include "core/lib/io/json.h"

namespace forge {

class DescribedMap {
 public:
  // `prefix` is the dotted path of the map, with its last dot; a node that is no map is a fault.
  DescribedMap(const Node& node, std::string prefix, Diagnostics& faults);

  // Return a present value; nothing for a missing key, null, and after a fault.
  const Node* take(const std::string& key);
  std::optional<std::string> text(const std::string& key);
  // Returns one text or a list of them.
  std::vector<std::string> texts(const std::string& key);
  std::optional<int64_t> integer(const std::string& key, int64_t least, int64_t most);
  std::optional<double> number(const std::string& key, double least, double most);
  std::optional<bool> flag(const std::string& key);
  // Returns a flag, integer, number or text.
  Json value(const std::string& key);
  // Returns one of `words`.
  std::optional<size_t> choice(const std::string& key, const std::vector<std::string>& words);

  void fault(const Position& at, const std::string& key, const std::string& what,
             const std::string& hint = "");
  // Says that `key` is missing.
  void require(const std::string& key, bool is_there, const std::string& what);
  // Refuses the keys that nothing took.
  void finish();
  const Node& node() const { return node_; }
  const std::string& prefix() const { return prefix_; }
  Diagnostics& faults() { return faults_; }

 private:
  template <class Value, class Read>
  std::optional<Value> read(const std::string& key, Read read);
  template <class Value>
  std::optional<Value> within(const std::string& key, const std::optional<Value>& value,
                              Value least, Value most);

  const Node& node_;
  std::string prefix_;
  Diagnostics& faults_;
  std::vector<std::string> taken_;
};

// Returns a scalar of a description as JSON: a flag, integer, number or text.
Json scalar_of(const Node& node);

}  // namespace forge
