#pragma once
// Numbers about a rollout for metrics.jsonl, the terminal and the report.
#include "core/learn/rollout/rollout.h"

namespace forge {

// Returns reward, reward_std, rewards {NAME: {mean, std, min, max, unscored; explains, if several
// have a weight}}, unscored, completions, completion_tokens {mean, std, min, max}, truncated_share,
// distinct_2.
Json rollout_facts(const std::vector<Completion>& completions, const std::vector<RewardConfig>& rewards);

// Returns the spread of the advantages: of completions that count, or under ppo of their tokens.
Json advantage_facts(const std::vector<Completion>& completions);

// Returns, for importance weights up to `limit`, their mean over tokens (correction) and the share
// of those that were cut off there (correction_cut_share).
Json correction_facts(const std::vector<Completion>& completions, double limit);

// Returns, for several turns: turns and inserted_tokens {mean, std, min, max}, tool_failures.
Json turn_facts(const std::vector<Completion>& completions);

// Returns, for completions with values: value_mean, return_mean, and explained_variance, which is
// 1 − Var(return − value) / Var(return) over tokens, null if the returns do not vary.
Json value_facts(const std::vector<Completion>& completions);

// Returns the distinct share of all pairs of neighbouring tokens within completions. It falls when
// a policy says the same thing again and again.
double distinct_2(const std::vector<Completion>& completions);

// Returns warnings for the reader, in sentences; empty if all is well.
std::vector<std::string> rollout_warnings(const Rollout& rollout, const RolloutConfig& config);

// Returns the completions of the highest, the median and the lowest reward of some rollouts between
// the first and the last, from their files: {rollout, which, reward, prompt, completion}. Rollouts
// that cannot be read are left out.
Json rollout_samples(const std::string& run_folder, int64_t rollouts);

}  // namespace forge
