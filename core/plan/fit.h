#pragma once
// Memory against what the device has: chooses micro-batch and recomputation, or refuses with the remedy.
#include "core/families/adapter_sites.h"
#include "core/plan/fullest.h"
#include "core/plan/judge_plan.h"

namespace forge {

// The parameters and adapted sites of a plan's job, and what follows from them whatever the micro-batch is.
struct Inventory {
  std::vector<Parameter> parameters;
  std::vector<AdapterSite> sites;
  TrainedSize trained;
  std::vector<JudgeModel> judges;
  std::shared_ptr<const ModuleTraining> trains;
  std::shared_ptr<const Graph> forward;
};
Inventory inventory_of(const Plan& plan);
void record_modules(Inventory& inventory, const ModelSpec& model, const AdapterConfig& adapter);
// What a training step of the plan is.
StepShape step_shape(const Plan& plan, const Inventory& inventory);

// Whether each micro-batch takes a forward more, without the adapter.
bool computes_reference(const Plan& plan);

// What is held, and what updating and loading take, of any micro-batch.
struct FixedMemory {
  std::vector<MemoryLine> held, update, loading;
};
FixedMemory fixed_memory(const Plan& plan, const Inventory& inventory);

// All lines of a plan whose micro-batch and checkpointing are settled, at the fullest moment of training and
// evaluation. `eval.tokens` 0: nothing to evaluate.
std::vector<MemoryLine> memory_lines(const Plan& plan, const Provider& provider, const Inventory& inventory, const FixedMemory& fixed,
                                     const Fullest& train, const Fullest& eval);

// Settles train.micro_batch_* and train.activation_checkpointing: no recomputation at the profile's knee if
// that fits, else less of one or the other, in that order of cost. Throws Error(fit).
void resolve_memory(Plan& plan, const Profile& profile, const Provider& provider, const ExampleCounts& counts);

// Error(environment) when `free_bytes` on the disk of the run folder are fewer than the plan will write.
void require_disk(const Plan& plan, int64_t free_bytes);

}  // namespace forge
