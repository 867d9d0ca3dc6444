#include "core/plan/plan.h"

#include <algorithm>
#include <span>

#include "core/data/batch/order.h"
#include "core/data/batch/packing.h"
#include "core/learn/objective/objective.h"
#include "core/plan/contradictions.h"
#include "core/plan/fit/fit.h"
#include "core/plan/stages/judge_plan.h"
#include "core/plan/warnings.h"

namespace forge {
namespace {

// Returns the steps of the first epoch, or its batches of prompts; none if the data are estimated.
Parts first_epoch_of(const Batching& plan, const std::vector<int64_t>& lengths) {
  if (lengths.empty()) return {};
  return draws_completions(plan.job.objective.type()) ? prompt_batches(lengths, plan.job, 0) : epoch_steps(lengths, plan.job, 0);
}

// Returns the provider that runs plain ATen, as fp8's gate does; null if there is none.
const Provider* plain_of(const std::vector<Provider>& providers) {
  const auto plain = std::find_if(providers.begin(), providers.end(), [](const Provider& p) { return p.name == std::string("reference"); });
  return plain == providers.end() ? nullptr : &*plain;
}

// Returns the fill of the batches. `first_epoch` has the steps of the first epoch.
PackingFacts packing_of(const Fitted& plan, const std::vector<int64_t>& lengths, const Parts& first_epoch) {
  constexpr size_t kMeasuredSteps = 1000;
  const TrainConfig& train = plan.job.train;
  if (lengths.empty()) return {};
  const std::span steps(first_epoch.data(), std::min(first_epoch.size(), kMeasuredSteps));
  BatchFill step_fill, micro_fill;
  for (const auto& step : steps) {
    if (train.global_batch_tokens) step_fill.add({step}, lengths, *train.global_batch_tokens);
    micro_fill.add(micro_batches(step, lengths, plan.job), lengths, *train.micro_batch_tokens);
  }
  return {static_cast<double>(micro_fill.parts) / static_cast<double>(steps.size()), micro_fill.share(), step_fill.share()};
}

}  // namespace

Plan make_plan(const PlanInput& input) {
  refuse_contradictions(input);
  const Compute compute = plan_compute(input);
  const Provider& provider = provider_named(input.providers, compute.provider);
  require_judges(compute, provider);
  const Batching batching = plan_batching(compute);
  const Parts first_epoch = first_epoch_of(batching, input.train_lengths);
  const Rollouts rollouts = plan_rollouts(batching, input, provider);
  const Schedule schedule = plan_schedule(rollouts, input.train_lengths, first_epoch);
  const Fitted fitted = plan_memory(schedule, input.profile, provider, plain_of(input.providers),
                                    {input.train_lengths, input.train_supervised, input.eval_lengths, input.eval_supervised});

  Plan plan{{fitted}, identity_of(input.job, input)};
  plan.attention = attention_of(plan, provider, *plan.job.train.micro_batch_tokens);
  const bool draws = draws_completions(plan.job.objective.type());
  if (!plan.train.estimated && !draws) plan.packing = packing_of(plan, input.train_lengths, first_epoch);
  plan.time = planned_time(plan, input.train_lengths, input.known_rates());
  if (draws && plan.time.step_seconds > 0) plan.rollout.sample_seconds = sample_seconds(plan, input.known_rates());
  static_cast<DiskUse&>(plan) = disk_of(plan);
  plan.warnings = warnings_of(plan, input);
  return plan;
}

}  // namespace forge
