#include "core/plan/stages/batching.h"

#include <algorithm>
#include <utility>

#include "core/job/names.h"
#include "core/learn/objective/objective.h"
#include "core/lib/base/ceil_div.h"
#include "core/model/families/trained_layout.h"
#include "core/plan/stages/objective_plan.h"

namespace forge {
namespace {

int64_t mean_length(const DataSummary& data) {
  return std::max<int64_t>(1, ceil_div(data.tokens, std::max<int64_t>(1, data.examples)));
}

bool has_limit(const TrainConfig& train) { return train.epochs || train.max_steps || train.max_tokens || train.max_time; }

Settled<int64_t> global_batch_size_of(const Setup& plan) {
  const TrainConfig& train = plan.job.train;
  if (train.global_batch_size) return {*train.global_batch_size};
  if (draws_completions(plan.job.objective.type())) {
    const RolloutConfig& rollout = plan.job.rollout;
    return {ceil_div(rollout.prompts_per_step * rollout.samples_per_prompt, plan.job.objective.as<PolicyConfig>().updates_per_rollout),
            derived("completions of a rollout, over objective.updates_per_rollout")};
  }
  if (train.global_batch_tokens)
    return {std::max<int64_t>(1, *train.global_batch_tokens / mean_length(plan.train)), derived("about as many examples as global_batch_tokens holds")};
  return {32, by_default("32 examples a step")};
}

}  // namespace

Batching plan_batching(const Compute& compute) {
  Batching limited{compute};
  TrainConfig& limits = limited.job.train;
  if (!has_limit(limits)) limited.settle("train.epochs", limits.epochs, Settled<double>{1, by_default("1 unless another limit is set")});
  Batching plan = with_objective(std::move(limited));
  plan.settle("train.global_batch_size", plan.job.train.global_batch_size, global_batch_size_of(plan));
  OptimizerConfig& optimizer = plan.job.optimizer;
  const std::string type = name_of(optimizer.type);
  if (!optimizer.betas)
    plan.settle("optimizer.betas", optimizer.betas, Settled<std::vector<double>>{default_betas(optimizer.type), by_default("those of " + type)});
  if (!optimizer.momentum && default_momentum(optimizer.type) > 0)
    plan.settle("optimizer.momentum", optimizer.momentum, Settled<double>{default_momentum(optimizer.type), by_default("that of " + type)});
  return plan;
}

}  // namespace forge
