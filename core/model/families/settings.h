#pragma once
// A model's config.json as typed settings: each key is read once, every fault is collected. A key
// that nobody read is refused, or only named where the model's class in transformers does not read
// it either.
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

#include "core/lib/base/key_error.h"
#include "core/lib/io/json.h"

namespace forge {

struct ConfigKeys;

class Settings {
 public:
  // `json` must be an object and outlive this. `name` begins every message.
  Settings(const Json& json, std::string name);

  // Returns a present value; null for a missing key, null, and a key that the class of use() never
  // reads. Marks the key as read.
  const Json* find(const std::string& key);
  // Return the value, or `fallback` if it is missing; without a fallback it is required. A wrong
  // type or a value outside [lowest, highest] is a fault.
  int64_t integer(const std::string& key, int64_t lowest, int64_t highest,
                  std::optional<int64_t> fallback = {});
  double number(const std::string& key, double lowest, double highest, std::optional<double> fallback = {});
  bool flag(const std::string& key, bool fallback);
  std::string text(const std::string& key, const std::string& fallback);
  // Returns one token id or a list of them.
  std::vector<int64_t> ids(const std::string& key);

  // Returns a list of `count` numbers.
  std::vector<double> numbers(const std::string& key, int64_t count, double lowest, double highest);
  // Sets the names in config.json of settings that are asked for by another name ("hidden_size":
  // "n_embd").
  void spell(std::map<std::string, std::string> spelling) { spelling_ = std::move(spelling); }
  // Sets the architecture of a GGUF, whose keys are asked for by a dot and their own name:
  // ".block_count" is "llama.block_count".
  void own(std::string architecture) { architecture_ = std::move(architecture); }
  // Sets the keys of the class that reads this file in transformers, with their other names. `keys`
  // must outlive this.
  void use(const ConfigKeys& keys) { keys_ = &keys; }
  // Adds keys that the class does not read and forge does.
  void also(std::vector<std::string> keys) { also_ = std::move(keys); }
  // Says what was read as what, for the message that refuses a setting of it.
  void remark(const std::string& text) { remark_ = text; }

  // Record a fault: the file is broken (Error(environment)) or asks for something that forge does
  // not do (Error(job)).
  void broken(const std::string& key, const std::string& what);
  void unsupported(const std::string& key, const std::string& what);
  // Refuses the setting if it is present and differs from what forge computes.
  void must_be(const std::string& key, const Json& value, const std::string& why);

  bool has(const std::string& key) const { return json_.contains(spelled(key)) && !unread_by_class(spelled(key)); }
  // Takes over the faults of a nested object. transformers does not read its unread keys either; an
  // object among them is refused.
  void absorb(Settings& nested, const std::string& prefix, bool (*harmless)(const std::string& key));
  // Throws all faults, broken ones first. Unread keys are refused unless `harmless` (or empty:
  // null, false, "", []); those that the class of use() does not read are ignored() instead.
  // `remedy` replaces the advice if the settings are not a config.json's.
  void finish(bool (*harmless)(const std::string& key), const char* remedy = nullptr);

  const std::string& name() const { return name_; }
  // Returns, after finish(), "KEY (VALUE)" of the keys that neither forge nor transformers reads.
  const std::vector<std::string>& ignored() const { return ignored_; }

 private:
  // Returns the value if it `fits`, or the fallback of a missing one; otherwise records that it was
  // `expected` and returns `lowest`.
  template <class T, class Fits>
  T bounded(const std::string& key, T lowest, std::optional<T> fallback, const std::string& expected, Fits fits);
  // Returns all names of a setting in the file, the most usual first.
  std::vector<std::string> names_of(const std::string& key) const;
  std::string spelled(const std::string& key) const;
  void judge_unread(bool (*harmless)(const std::string& key));
  bool unread_by_class(const std::string& key) const;

  const Json& json_;
  std::string name_, remark_, architecture_;
  std::set<std::string> read_;
  std::map<std::string, std::string> spelling_;
  const ConfigKeys* keys_ = nullptr;
  std::vector<std::string> also_;
  std::vector<KeyFault> broken_, unsupported_;
  std::vector<std::string> ignored_;
};

}  // namespace forge
