#include "core/plan/step_time.h"

#include <algorithm>
#include <cmath>

#include "core/job/names.h"
#include "core/learn/objective/objective.h"
#include "core/plan/plan.h"
#include "core/plan/stages/value_plan.h"

namespace forge {
namespace {

// The average micro-batch of a step.
struct MeanBatch {
  double count = 1;  // micro-batches per step
  StepSizes sizes;
};

MeanBatch mean_batch(const Plan& plan) {
  MeanBatch batch;
  auto step_tokens = static_cast<double>(plan.train.tokens) / static_cast<double>(plan.steps_per_epoch);
  double share = static_cast<double>(plan.train.supervised_tokens) / std::max<double>(1, static_cast<double>(plan.train.tokens));
  if (draws_completions(plan.job.objective.type())) {  // each as long as it may be
    const double prompt = static_cast<double>(plan.train.tokens) / static_cast<double>(std::max<int64_t>(1, plan.train.examples));
    const auto drawn = static_cast<double>(plan.job.rollout.max_new_tokens);
    step_tokens = static_cast<double>(*plan.job.train.global_batch_size) * (prompt + drawn);
    share = drawn / (prompt + drawn);
  }
  const auto most = static_cast<double>(*plan.job.train.micro_batch_tokens);
  batch.count = plan.packing.micro_batches_per_step > 0 ? plan.packing.micro_batches_per_step
                                                        : std::ceil(step_tokens / most);
  const double tokens = std::max(1.0, step_tokens / std::max(1.0, batch.count));
  batch.sizes = {std::llround(tokens), std::max<int64_t>(1, std::llround(tokens * share)),
                 bytes_of(*plan.job.train.precision), *plan.job.train.threads};
  return batch;
}

// Returns why the rates do not apply; empty if they do.
std::string unknown(const Plan& plan, const Rates* rates) {
  if (plan.device.cuda) return "unmeasured: rates are measured on processors only";
  if (plan.provider != "fused") return "unmeasured: so far, rates are measured for provider fused only";
  if (plan.job.model.quantization != Quantization::none || plan.storage != *plan.job.train.precision)
    return "unmeasured: the rates do not cover weights that are converted on use";
  if (!rates)
    return "unmeasured: forge bench JOB --kernels measures this machine once, for all jobs of this "
           "output_dir";
  return "";
}

}  // namespace

double mean_attended_length(const std::vector<int64_t>& lengths) {
  double sum = 0, squares = 0;
  for (int64_t length : lengths) {
    sum += static_cast<double>(length);
    squares += static_cast<double>(length) * static_cast<double>(length);
  }
  return sum > 0 ? squares / sum : 1;
}

PlannedTime planned_time(const Plan& plan, const std::vector<int64_t>& lengths, const Rates* rates) {
  PlannedTime time{.reason = unknown(plan, rates)};
  if (!time.reason.empty()) return time;
  const Precision precision = *plan.job.train.precision;
  const Inventory inventory = inventory_of(plan);
  const Graph& step = inventory.lists->training(plan.step);
  const MeanBatch batch = mean_batch(plan);
  const double length = mean_attended_length(lengths);
  double micro_batch = 0, update = 0, reference = 0;
  std::string missing;
  const auto add = [&](double& to, const Work& work) {
    const std::optional<double> seconds = rates->seconds(work, precision);
    if (seconds)
      to += *seconds;
    else
      missing = work.kind;
  };
  for (size_t i = 0; i < step.ops.size(); ++i)
    for (const Work& work : work_of(step, step.ops[i], batch.sizes, length))
      add(i < step.micro_batch_ops ? micro_batch : update, work);
  // The forward pass of the reference model is added: its head costs half of one that also computes
  // gradients.
  if (computes_reference(plan))
    for (size_t i = 0; i < step.forward_ops; ++i)
      for (const Work& work : work_of(step, step.ops[i], batch.sizes, length)) {
        double seconds = 0;
        add(seconds, work);
        reference += i + 1 == step.forward_ops ? seconds / 2 : seconds;
      }
  // The value network predicts before the first step, and is trained in each.
  if (has_value_network(plan)) {
    const Compute value = value_plan(plan);
    const Inventory inventory_of_value = own_inventory(value);
    const Graph& own = inventory_of_value.lists->training(value.step);
    for (size_t i = 0; i < own.ops.size(); ++i)
      for (const Work& work : work_of(own, own.ops[i], batch.sizes, length)) {
        add(i < own.micro_batch_ops ? micro_batch : update, work);
        if (i < own.forward_ops) add(micro_batch, work);
      }
  }
  micro_batch += reference;
  add(micro_batch, batch_work(batch.sizes));
  if (!missing.empty()) {
    time.reason = "unmeasured: the rates have no entry for \"" + missing + "\" in " + name_of(precision) +
                  "; forge bench JOB --kernels measures it";
    return time;
  }
  time.step_seconds = batch.count * micro_batch + update;
  time.run_seconds = time.step_seconds * static_cast<double>(plan.steps);
  time.reason = "from the rates of " + rates->date + ", " + std::to_string(rates->machine.threads) +
                " threads; steps only";
  return time;
}

}  // namespace forge
