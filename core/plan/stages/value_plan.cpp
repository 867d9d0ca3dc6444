#include "core/plan/stages/value_plan.h"

#include "core/lib/base/text.h"

namespace forge {

bool has_value_network(const Setup& plan) { return plan.job.objective.type() == ObjectiveType::ppo; }

Compute value_plan(const Compute& plan) {
  const ValueModel value = value_model(plan.model, plan.job, Experts::in_rows);
  Compute own = plan;
  own.model = value.spec;
  own.job.adapter = value.adapter;
  own.job.train.activation_offloading = Offload::none;
  own.step = value_step(plan, plan.step);
  return own;
}

StepChoice value_step(const Compute& plan, const StepChoice& policy) {
  const ValueModel value = value_model(plan.model, plan.job, Experts::in_rows);
  return {.recompute = policy.recompute,  // the room for adapters in the weights is the policy's
          .trained = trained_size(value.layout, plan.job.train.precision.value_or(Precision::fp32)),
          .folded_residuals = policy.folded_residuals};
}

int64_t value_checkpoint_bytes(const Setup& plan) {
  const ValueModel value = value_model(plan.model, plan.job, Experts::in_rows);
  return count_parameters(value.parameters).trainable * 4 + value.layout.state_bytes();
}

std::string value_text(const Setup& plan) {
  const ValueConfig& value = plan.job.objective.as<PpoConfig>().value;
  const int64_t weights =
      count_parameters(value_model(plan.model, plan.job, Experts::in_rows).parameters).trainable;
  const bool full = plan.job.adapter.type == AdapterType::none;
  std::string text = full ? "a second copy of all weights, with a head of one number, " : "an adapter and a head of its own on the same base, ";
  text += format_count(weights) + " weights; learning rate " +
          format_number(value.learning_rate_ratio * plan.job.optimizer.learning_rate);
  if (value.clip > 0) text += "; clipped " + format_number(value.clip) + " around its earlier prediction";
  if (value.pretrain_steps > 0) text += "; trained alone for " + format_count(value.pretrain_steps) + " steps first";
  return text;
}

}  // namespace forge
