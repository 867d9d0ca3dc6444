#pragma once
// Scores from processes of the user's: the reward type `command`. docs/rewards.md has the protocol for those who write
// one.
//
//   ProcessPool pool(reward, {.job = "arithmetic", .seed = 42});
//   std::vector<Score> scores = pool.score(samples, step, most_failures);   // in the order of samples
//
// Item k goes to process k modulo `workers`, whoever is free: what a process sees does not depend on timing. A process
// that hangs or ends is started again and its item tried once more; then the item has failed.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/config/job.h"
#include "core/reward/score.h"

namespace forge {

struct CommandContext {
  std::string job;
  int64_t seed = 0;
};

struct PoolCounts {
  int64_t timeouts = 0, crashes = 0;
};

class ProcessPool {
 public:
  ProcessPool(RewardConfig reward, CommandContext context);
  ~ProcessPool();

  // Processes are started when first needed, and stay. Throws Error(environment) with the process's last words when it
  // does not start, breaks the protocol or ends three times, and once more than `most_failures` items have failed. Throws
  // ScoringStopped within a tenth of a second once `stopped` says so; who was asked then is ended with the pool.
  std::vector<Score> score(const std::vector<RewardSample>& samples, int64_t step, int64_t most_failures,
                           const std::function<bool()>& stopped = {});
  const PoolCounts& counts() const { return counts_; }

 private:
  class Worker;
  class Batch;
  RewardConfig reward_;
  CommandContext context_;
  std::vector<std::unique_ptr<Worker>> workers_;
  PoolCounts counts_;
};

}  // namespace forge
