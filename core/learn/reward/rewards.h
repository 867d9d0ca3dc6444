#pragma once
// All rewards of a job together: they take completions and give one number for each, with all its
// parts.
//
//   Rewards rewards(job);
//   for (const ScoredSample& scored : rewards.score(samples, {.step = 12}))
//     if (scored.total) use(*scored.total);
//
// The result is in the order of the samples and depends only on them and on the answers of
// processes and servers.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/job/job.h"
#include "core/learn/reward/process_pool.h"
#include "core/learn/reward/score.h"
#include "core/learn/reward/verifiers.h"

namespace forge {

struct ScoredSample {
  std::vector<Score> parts;     // one of each reward, in the order of the job
  std::optional<double> total;  // nothing when a reward with a weight has no score
  std::string reason;           // why there is no total
};

struct ScoreOptions {
  int64_t step = 0;
  // Continues where on_error says stop and past max_unscored, to find further failures; kMostTold
  // failures of processes end that too.
  bool keep_going = false;
  std::function<bool()> stopped;  // true: scores are no longer needed, and ScoringStopped is thrown
  // Asks reward models: returns the scores of one reward of type model. Needed if the job has one.
  std::function<std::vector<Score>(const RewardConfig& reward, const std::vector<RewardSample>& samples)> judge;
};
constexpr int64_t kMostTold = 20;

class Rewards {
 public:
  // Compiles patterns and reads schemas; starts no process. Throws KeyError(job) with every fault.
  explicit Rewards(const Job& job);

  const std::vector<RewardConfig>& configs() const { return configs_; }
  // True if samples must state their number of tokens.
  bool counts_tokens() const;
  // Throws Error(data) or Error(environment), naming up to kMostTold completions by place and
  // reason, when a reward without a score has on_error: stop, or when more than max_unscored of
  // them have none.
  std::vector<ScoredSample> score(const std::vector<RewardSample>& samples, const ScoreOptions& options = {});
  // Returns the time-outs and crashes of reward i so far.
  PoolCounts counts(size_t reward) const;

 private:
  std::vector<Score> scores_of(size_t reward, const std::vector<RewardSample>& samples,
                               const ScoreOptions& options);

  std::vector<RewardConfig> configs_;
  RewardMixConfig mix_;
  std::vector<Verifier> verifiers_;                  // empty functions where a process answers
  std::vector<std::unique_ptr<ProcessPool>> pools_;  // null where a verifier does
};

// Computes the totals: Σ weight · score over rewards with a weight, where a reward with `requires`
// counts as 0 unless that one is above 0. With normalize_each every reward is first standardised
// among the scored members of its group, by mean and unbiased standard deviation + 1e-4 (GDPO); a
// group that does not vary gives 0. Fills `total` and `reason`; groups are RewardSample::group.
void combine(const std::vector<RewardConfig>& rewards, const RewardMixConfig& mix,
             const std::vector<RewardSample>& samples, std::vector<ScoredSample>& scored);

// Throws like Rewards::score() where the scores stop a run: for failures of rewards with on_error:
// stop, and for too many completions without a score.
void require_scores(const std::vector<RewardConfig>& rewards, const std::vector<RewardSample>& samples,
                    const std::vector<ScoredSample>& scored);

}  // namespace forge
