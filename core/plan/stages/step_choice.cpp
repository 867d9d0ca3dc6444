#include "core/plan/stages/step_choice.h"

#include "core/learn/objective/objective.h"
#include "core/model/families/trained_layout.h"
#include "core/plan/stages/inventory.h"

namespace forge {
namespace {

bool fuses_head(const Compute& plan) {
  const Precision precision = *plan.job.train.precision;
  const bool by_token = objective_of(plan.job.objective.type()).coupling == Coupling::token;
  return by_token && plan.provider == "fused" && plan.storage == precision && !plan.model.head_bias &&
         (plan.device.cuda || head_without_logits(precision, instructions_of(plan.device.cpu)));
}

// True if adapters are folded into the products. On a GPU this saves a pass over y and one over d
// x. On a CPU it gains too little for its memory: SmolLM2's step (1,024 tokens, rank 16, one run
// each on an Intel Xeon) gained 1.4 % in fp32 and 3.7 % in bf16, where runs are 5 % apart, and took
// 200 and 76 MiB more, since weights with room for adapters are copies of a mapped file. Weights
// that are decoded or converted before each product have no place for the adapter. Dropout's mask
// is between x and A but not between x and W.
bool folds_adapters(const Compute& plan) {
  const AdapterConfig& adapter = plan.job.adapter;
  return plan.device.cuda && plan.provider == "fused" && adapter.type == AdapterType::lora && !adapter.use_dora && adapter.dropout == 0 &&
         plan.job.model.quantization == Quantization::none && plan.storage == *plan.job.train.precision;
}

}  // namespace

bool head_without_logits(Precision precision, InstructionSet instructions) {
  if (precision == Precision::fp32) return false;
  return precision != Precision::bf16 || instructions < InstructionSet::avx512_bf16;
}

bool folds_residuals(const Compute& plan) { return plan.device.cuda && plan.provider == "fused"; }

StepChoice chosen_step(const Compute& plan) {
  return with_job(plan, {.fused_head = fuses_head(plan), .folded_adapters = folds_adapters(plan)});
}

StepChoice with_job(const Compute& plan, StepChoice step) {
  step.trained = trained_size(trained_layout(parameters_of(plan), plan.job.optimizer), *plan.job.train.precision);
  step.folded_residuals = folds_residuals(plan);
  step.offloaded = plan.job.train.activation_offloading == Offload::host;
  return step;
}

}  // namespace forge
