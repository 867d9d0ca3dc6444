#pragma once
// The built-in verifiers: each type of reward as a function of a completion. docs/rewards.md
// describes them.
//
//   Verifier verify = make_verifier(job.rewards[0], "rewards[0]");
//   verify(sample)   // {1, "42 equals 42"}
#include <string>

#include "core/job/job.h"
#include "core/learn/reward/score.h"

namespace forge {

// Returns a reward's verifier with its pattern and schema ready; `key` is the reward's
// ("rewards[0]"). All types have one but command, http and model, whose scores come from processes
// and servers. Throws KeyError(job) for patterns and schemas that cannot be used,
// Error(environment) for a schema file that cannot be read.
Verifier make_verifier(const RewardConfig& reward, const std::string& key);

// One function for each type that has a verifier, each in the file of its kind.
Verifier verifier_of(const ExactReward& reward, const std::string& key);
Verifier verifier_of(const ContainsReward& reward, const std::string& key);
Verifier verifier_of(const RegexReward& reward, const std::string& key);
Verifier verifier_of(const NumericReward& reward, const std::string& key);
Verifier verifier_of(const MathReward& reward, const std::string& key);
Verifier verifier_of(const ChoiceReward& reward, const std::string& key);
Verifier verifier_of(const JsonSchemaReward& reward, const std::string& key);
Verifier verifier_of(const TagsReward& reward, const std::string& key);
Verifier verifier_of(const LengthReward& reward, const std::string& key);
Verifier verifier_of(const RepetitionReward& reward, const std::string& key);
Verifier verifier_of(const OverlongReward& reward, const std::string& key);

}  // namespace forge
