#pragma once
// A model's config.json as typed settings: each key is read once, every fault is collected, and a key that
// nobody read is refused unless a table says that it is harmless.
//
//   Settings settings(json, "models/x/config.json");
//   spec.hidden_size = settings.integer("hidden_size", 1, 1 << 18);
//   settings.finish();   // throws every fault at once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/key_error.h"
#include "core/io/json.h"

namespace forge {

class Settings {
 public:
  // `json` must be an object and outlive this. `name` begins every message.
  Settings(const Json& json, std::string name);

  // A present value, or nothing for a missing key and null. Marks the key as read.
  const Json* find(const std::string& key);
  // Required without a fallback. A wrong type or a value outside [lowest, highest] is a fault.
  int64_t integer(const std::string& key, int64_t lowest, int64_t highest,
                  std::optional<int64_t> fallback = {});
  double number(const std::string& key, double lowest, double highest, std::optional<double> fallback = {});
  bool flag(const std::string& key, bool fallback);
  std::string text(const std::string& key, const std::string& fallback);
  // One token id or a list of them.
  std::vector<int64_t> ids(const std::string& key);

  // A list of `count` numbers.
  std::vector<double> numbers(const std::string& key, int64_t count, double lowest, double highest);
  // What config.json calls a setting that the functions above are asked for by another name ("hidden_size": "n_embd").
  void spell(std::map<std::string, std::string> spelling) { spelling_ = std::move(spelling); }

  // The file is broken (Error(environment)) or asks for something forge does not do (Error(job)).
  void broken(const std::string& key, const std::string& what);
  void unsupported(const std::string& key, const std::string& what);
  // Refuses the setting when it is present and differs from what forge computes.
  void must_be(const std::string& key, const Json& value, const std::string& why);

  bool has(const std::string& key) const { return json_.contains(spelled(key)); }
  // Takes over the faults of a nested object, its unread keys included.
  void absorb(Settings& nested, bool (*harmless)(const std::string& key));
  // Throws all faults, broken ones first. Unread keys are refused unless `harmless` (or empty: null, false,
  // "", []).
  void finish(bool (*harmless)(const std::string& key));

  const std::string& name() const { return name_; }

 private:
  const std::string& spelled(const std::string& key) const;
  void refuse_unread(bool (*harmless)(const std::string& key));

  const Json& json_;
  std::string name_;
  std::set<std::string> read_;
  std::map<std::string, std::string> spelling_;
  std::vector<KeyFault> broken_, unsupported_;
};

}  // namespace forge
