#pragma once
// A model's config.json as typed settings: each key is read once, every fault is collected. A key that nobody read is
// refused, or only named where the model's class in transformers does not read it either.
//
//   Settings settings(json, "models/x/config.json");
//   settings.use(config_keys_of("llama"));
//   spec.hidden_size = settings.integer("hidden_size", 1, 1 << 18);
//   settings.finish(harmless_setting);   // throws every fault at once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/key_error.h"
#include "core/io/json.h"

namespace forge {

struct ConfigKeys;

class Settings {
 public:
  // `json` must be an object and outlive this. `name` begins every message.
  Settings(const Json& json, std::string name);

  // A present value, or nothing for a missing key, null, and a key that the class of use() never reads. Marks it as read.
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
  // The class that reads this file in transformers, with its other names of keys. `keys` must outlive this.
  void use(const ConfigKeys& keys) { keys_ = &keys; }

  // The file is broken (Error(environment)) or asks for something forge does not do (Error(job)).
  void broken(const std::string& key, const std::string& what);
  void unsupported(const std::string& key, const std::string& what);
  // Refuses the setting when it is present and differs from what forge computes.
  void must_be(const std::string& key, const Json& value, const std::string& why);

  bool has(const std::string& key) const { return json_.contains(spelled(key)) && !unread_by_class(spelled(key)); }
  // Takes over the faults of a nested object, whose unread keys transformers does not read either; an object among
  // them is refused.
  void absorb(Settings& nested, const std::string& prefix, bool (*harmless)(const std::string& key));
  // Throws all faults, broken ones first. Unread keys are refused unless `harmless` (or empty: null, false, "", []);
  // those that the class of use() does not read are ignored() instead. `remedy`: what to do where the settings are not
  // a config.json's.
  void finish(bool (*harmless)(const std::string& key), const char* remedy = nullptr);

  const std::string& name() const { return name_; }
  // After finish(): "KEY (VALUE)" of keys that transformers reads as little as forge.
  const std::vector<std::string>& ignored() const { return ignored_; }
  // Keys that were asked for, as the file would have them.
  const std::set<std::string>& asked() const { return read_; }

 private:
  // All names of a setting in the file, the most usual first.
  std::vector<std::string> names_of(const std::string& key) const;
  std::string spelled(const std::string& key) const;
  void judge_unread(bool (*harmless)(const std::string& key));
  bool unread_by_class(const std::string& key) const;

  const Json& json_;
  std::string name_;
  std::set<std::string> read_;
  std::map<std::string, std::string> spelling_;
  const ConfigKeys* keys_ = nullptr;
  std::vector<KeyFault> broken_, unsupported_;
  std::vector<std::string> ignored_;
};

}  // namespace forge
