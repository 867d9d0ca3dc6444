#pragma once
// Rules between keys, and values that need more than a range. Each rule adds its fault at the value
// that must change.
#include <map>
#include <string>

#include "core/job/diagnostics.h"
#include "core/job/job.h"
#include "core/job/parse.h"

namespace forge {

// The faults of rules, each at the place of its key; at the file's beginning for a key that is not
// given.
class RuleFaults {
 public:
  RuleFaults(const Job& job, const Parsed& parsed, const Position& file, Diagnostics& faults)
      : job_(job), parsed_(parsed), file_(file), faults_(faults) {}

 protected:
  bool given(const std::string& key) const { return parsed_.given.contains(key); }
  void fault(const std::string& key, std::string message, std::string hint = "");
  // Refuses a key that would be accepted and then ignored. A value that turns off what is off by
  // default (0, false), and no samples, are allowed.
  void no_effect(const std::string& key, const std::string& why, const std::string& hint = "remove it");
  // Refuses the keys below `fields` that only other types have. `prefix` begins their names.
  void keys_of_other_types(const std::vector<Field>& fields, const std::string& prefix,
                           const std::string& type);
  // Calls `work` with each data source and the beginning of its keys: "data.train[0].".
  template <class Work>
  void each_source(Work work) const {
    const DataConfig& data = job_.data;
    for (const auto* sources : {&data.train, &data.eval})
      for (size_t i = 0; i < sources->size(); ++i)
        work((*sources)[i], (sources == &data.train ? "data.train[" : "data.eval[") + std::to_string(i) + "].");
  }

  const Job& job_;
  const Parsed& parsed_;
  const Position& file_;
  Diagnostics& faults_;
};

void check_rules(const Job& job, const Parsed& parsed, const Position& file, Diagnostics& faults);

// Checks the keys of a policy that learns from drawn completions (grpo, ppo).
void check_policy(const Job& job, const Parsed& parsed, const Position& file, Diagnostics& faults);

// Checks the keys of rewards: the types that read a key, and the keys that a type needs. The
// content of files and patterns is checked where they are opened (core/learn/reward/verifiers.h).
void check_rewards(const Job& job, const Parsed& parsed, const Position& file, Diagnostics& faults);

// Returns the fault in headers of requests; empty if there is none. A line break in a value would
// begin a header of its own (RFC 9110, 5.5). No message holds a value, which may be a secret.
std::string header_fault(const std::map<std::string, std::string>& headers);

}  // namespace forge
