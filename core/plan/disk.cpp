#include "core/plan/disk.h"

#include <algorithm>
#include <limits>

#include "core/learn/objective/objective.h"
#include "core/learn/rollout/policy_step.h"
#include "core/lib/base/error.h"
#include "core/lib/base/text.h"
#include "core/model/families/trained_layout.h"
#include "core/plan/plan.h"
#include "core/plan/stages/inventory.h"
#include "core/plan/stages/value_plan.h"

namespace forge {

// Returns the bytes of rollout files if every completion is as long as it may be: a token is an id
// and a log-probability in decimals.
static int64_t rollout_bytes(const Schedule& plan) {
  if (!draws_completions(plan.job.objective.type())) return 0;
  constexpr int64_t kTokenBytes = 36, kLineBytes = 1 << 10;
  const ObjectiveConfig& objective = plan.job.objective;
  const RolloutConfig& rollout = plan.job.rollout;
  const int64_t rollouts = plan.steps / steps_per_rollout(objective.as<PolicyConfig>()) + 1;
  return rollouts * rollout.prompts_per_step * rollout.samples_per_prompt * (kLineBytes + kTokenBytes * rollout.max_new_tokens);
}

DiskUse disk_of(const Fitted& plan) {
  DiskUse use;
  const Job& job = plan.job;
  const TrainedLayout trained = trained_layout(parameters_of(plan), job.optimizer);
  constexpr int64_t kSmallFiles = 1 << 20;  // manifest, random states, data position
  use.checkpoint_bytes = plan.parameters.trainable * (trained.averages ? 8 : 4) + trained.state_bytes() + kSmallFiles;
  if (has_value_network(plan)) use.checkpoint_bytes += value_checkpoint_bytes(plan);
  // One more is counted than is kept: the new checkpoint is complete before the old one is removed.
  const bool periodic = job.checkpoint.every_steps.has_value();
  const bool best = plan.eval.examples > 0;
  const int64_t most = plan.steps > 0 ? plan.steps : std::numeric_limits<int64_t>::max();  // 0: not known
  const int64_t kept =
      periodic ? std::min(job.checkpoint.keep_last, most / *job.checkpoint.every_steps + 1) : 1;
  const int64_t copies = kept + (best ? job.checkpoint.keep_best : 0) + 1;
  const bool full = job.adapter.type == AdapterType::none;
  const int64_t result = plan.parameters.trainable * (full ? bytes_of(*job.train.precision) : 4);
  constexpr int64_t kSmallLogs = 16 << 20;
  constexpr int64_t kLineBytes = 1 << 10;  // of metrics.jsonl and, where there is one, TensorBoard's file
  const int64_t logs = std::max(kSmallLogs, plan.steps / job.log.every_steps * kLineBytes);
  const double bytes = static_cast<double>(copies) * static_cast<double>(use.checkpoint_bytes);
  use.disk_bytes =
      static_cast<int64_t>(std::min(bytes, 1e18)) + result + logs + rollout_bytes(plan);
  return use;
}

void require_disk(const Plan& plan, int64_t free_bytes) {
  if (plan.disk_bytes <= free_bytes) return;
  throw Error(ErrorKind::environment, plan.job.output_dir + ": the run writes up to " +
                                          format_bytes(plan.disk_bytes) + ", " + format_bytes(free_bytes) +
                                          " are free (one checkpoint is " +
                                          format_bytes(plan.checkpoint_bytes) + ")")
      .hint("free space, set output_dir to another disk, or keep fewer checkpoints (checkpoint.keep_last)");
}

}  // namespace forge
