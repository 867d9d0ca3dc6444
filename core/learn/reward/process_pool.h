#pragma once
// Scores from the user's processes: the reward type `command`. docs/rewards.md describes the
// protocol for authors of such processes.
//
//   ProcessPool pool(reward, {.job = "arithmetic", .seed = 42});
//   std::vector<Score> scores = pool.score(samples, step, most_failures);   // in the order of samples
#include <string>
#include <vector>

#include "core/job/job.h"
#include "core/learn/reward/child_pool.h"

namespace forge {

struct CommandContext {
  std::string job;
  int64_t seed = 0;
};

class ProcessPool : public ChildPool {
 public:
  ProcessPool(const RewardConfig& reward, const CommandContext& context);

  // Throws like ChildPool::ask.
  std::vector<Score> score(const std::vector<RewardSample>& samples, int64_t step, int64_t most_failures,
                           const std::function<bool()>& stopped = {});
};

}  // namespace forge
