#pragma once
// The parts of a job's model that memory and time depend on: parameters, adapted modules, judges.
#include <memory>
#include <vector>

#include "core/plan/files/judge_model.h"
#include "core/plan/stages/compute.h"

namespace forge {

// The parameters and adapted sites of a plan's job, and what follows from them whatever the
// micro-batch is. Experts are in rows.
struct Inventory {
  std::vector<Parameter> parameters;  // parameter_rows()
  std::vector<JudgeModel> judges;
  std::shared_ptr<StepLists> lists;
  std::shared_ptr<StepLists> base;  // the model's, with nothing of it trained
};
// True if each micro-batch takes one forward more, without the adapter.
bool computes_reference(const Setup& plan);

// Returns the parameters of the inventory alone, in rows.
std::vector<Parameter> parameters_of(const Setup& plan);
Inventory inventory_of(const Setup& plan);
// Returns the inventory without judges and base.
Inventory own_inventory(const Setup& plan);

}  // namespace forge
