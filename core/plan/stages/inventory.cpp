#include "core/plan/stages/inventory.h"

#include "core/learn/objective/objective.h"
#include "core/plan/stages/fp8.h"

namespace forge {

void record_modules(Inventory& inventory, const ModelSpec& model, const AdapterConfig& adapter, const Job& job) {
  const Quantization quantization = job.model.quantization;
  inventory.lists = std::make_shared<StepLists>(StepShape{
      model, module_training(model, adapter, inventory.sites, quantization), {}, residual_of(job)});
}

bool computes_reference(const Setup& plan) {
  const auto* referenced = plan.job.objective.find<Referenced>();
  return needs_base(plan.job) || (referenced && !referenced->reference_cache.value_or(false));
}

std::vector<Parameter> parameters_of(const Setup& plan) {
  return run_parameters(plan.model, plan.job.adapter, plan.job.model.quantization);
}

Inventory inventory_of(const Setup& plan) {
  const Job& job = plan.job;
  Inventory inventory{parameters_of(plan), adapter_sites(plan.model, job.adapter)};
  inventory.judges = judges_of(job);
  record_modules(inventory, plan.model, job.adapter, job);
  if (computes_reference(plan) || has_fp8_gate(job)) inventory.base = std::make_shared<StepLists>(StepShape{plan.model, base_training(plan.model, job.adapter, job.model.quantization), {}, residual_of(job)});
  return inventory;
}

}  // namespace forge
