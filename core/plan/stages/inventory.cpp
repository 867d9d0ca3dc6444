#include "core/plan/stages/inventory.h"

#include "core/learn/objective/objective.h"
#include "core/plan/stages/fp8.h"

namespace forge {

bool computes_reference(const Setup& plan) {
  const auto* referenced = plan.job.objective.find<Referenced>();
  return needs_base(plan.job) || (referenced && !referenced->reference_cache.value_or(false));
}

std::vector<Parameter> parameters_of(const Setup& plan) {
  return parameter_rows(plan.model, plan.job.adapter, plan.job.model.quantization);
}

Inventory own_inventory(const Setup& plan) {
  const AdapterConfig& adapter = plan.job.adapter;
  const std::vector<AdapterSite> sites = adapter_sites(plan.model, adapter, Experts::in_rows);
  const ModuleTraining training =
      module_training(plan.model, adapter, sites, plan.job.model.quantization, Experts::in_rows);
  const StepShape shape{plan.model, training, {}, residual_of(plan.job)};
  return {.parameters = parameters_of(plan), .lists = std::make_shared<StepLists>(shape)};
}

Inventory inventory_of(const Setup& plan) {
  Inventory inventory = own_inventory(plan);
  inventory.judges = judges_of(plan.job);
  if (!computes_reference(plan) && !has_fp8_gate(plan.job)) return inventory;
  const ModuleTraining training =
      base_training(plan.model, plan.job.adapter, plan.job.model.quantization, Experts::in_rows);
  inventory.base = std::make_shared<StepLists>(StepShape{plan.model, training, {}, residual_of(plan.job)});
  return inventory;
}

}  // namespace forge
