#include "core/plan/stages/schedule.h"

#include <algorithm>
#include <cmath>

#include "core/learn/objective/objective.h"
#include "core/learn/rollout/policy_step.h"
#include "core/lib/base/ceil_div.h"

namespace forge {
namespace {

// Returns the steps of an epoch. `lengths` may come from a sample.
int64_t steps_of_epoch(const Setup& plan, const std::vector<int64_t>& lengths, const Parts& first_epoch) {
  if (!lengths.empty())
    return ceil_div(static_cast<int64_t>(first_epoch.size()) * plan.train.examples, std::ssize(lengths));
  if (draws_completions(plan.job.objective.type())) return ceil_div(plan.train.examples, plan.job.rollout.prompts_per_step);
  if (plan.job.train.global_batch_tokens)
    return ceil_div(plan.train.tokens, *plan.job.train.global_batch_tokens);
  return ceil_div(plan.train.examples, *plan.job.train.global_batch_size);
}

// Returns the steps of the run: up to the first limit that ends it; 0 if only train.max_time does.
int64_t steps_of(const Setup& plan, int64_t steps_per_epoch) {
  const TrainConfig& train = plan.job.train;
  int64_t steps = 0;
  const auto limit = [&](int64_t most) { steps = steps == 0 ? most : std::min(steps, most); };
  if (train.epochs)
    limit(std::max<int64_t>(1, static_cast<int64_t>(std::ceil(*train.epochs * static_cast<double>(steps_per_epoch) - 1e-9))));
  if (train.max_steps) limit(*train.max_steps);
  if (train.max_tokens) {
    const int64_t step_tokens = std::max<int64_t>(1, plan.train.tokens / steps_per_epoch);
    limit(ceil_div(*train.max_tokens, step_tokens));
  }
  return steps;
}

}  // namespace

Schedule plan_schedule(const Rollouts& rollouts, const std::vector<int64_t>& lengths, const Parts& first_epoch) {
  Schedule plan{rollouts};
  plan.steps_per_epoch = std::max<int64_t>(1, steps_of_epoch(plan, lengths, first_epoch));
  if (const auto* policy = plan.job.objective.find<PolicyConfig>()) plan.steps_per_epoch *= steps_per_rollout(*policy);
  plan.steps = steps_of(plan, plan.steps_per_epoch);
  return plan;
}

}  // namespace forge
