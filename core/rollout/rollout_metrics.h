#pragma once
// A rollout in numbers: what metrics.jsonl, the terminal and the report tell of it.
#include "core/rollout/rollout.h"

namespace forge {

// Mean, deviation (unbiased), least and most of numbers; null without any.
Json spread_json(const std::vector<double>& values);

// reward, reward_std, rewards {NAME: {mean, std, min, max, unscored, of several with a weight explains}}, unscored, groups, flat_groups, dropped_groups, rounds,
// discarded, completions, completion_tokens {mean, min, max}, truncated_share, distinct_2.
Json rollout_facts(const std::vector<Completion>& completions, const std::vector<RewardConfig>& rewards);

// Spread of the advantages: of completions that count, or under ppo of their tokens.
Json advantage_facts(const std::vector<Completion>& completions);

// Of importance weights up to `limit`: correction, their mean over tokens, and correction_cut_share, of those that were cut off there.
Json correction_facts(const std::vector<Completion>& completions, double limit);

// Of several turns: turns and inserted_tokens {mean, std, min, max}, tool_failures.
Json turn_facts(const std::vector<Completion>& completions);

// Of completions with values: value_mean, return_mean, explained_variance, 1 − Var(return − value) / Var(return) over tokens, null
// where the returns do not vary.
Json value_facts(const std::vector<Completion>& completions);

// Distinct over all pairs of neighbouring tokens within completions: falls when a policy says the same thing again and
// again.
double distinct_2(const std::vector<Completion>& completions);

// What a reader should know, in sentences; empty where all is well.
std::vector<std::string> rollout_warnings(const Rollout& rollout, const RolloutConfig& config);

// Of some rollouts between the first and the last the completions of the highest, the median and the lowest reward, from their
// files: {rollout, which, reward, prompt, completion}. What cannot be read is left out.
Json rollout_samples(const std::string& run_folder, int64_t rollouts);

}  // namespace forge
