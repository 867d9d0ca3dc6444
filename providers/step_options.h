#pragma once
// The options of a provider.
#include <memory>

#include "core/model/families/adapter_sites.h"
#include "core/model/families/step.h"
#include "core/plan/plan.h"
#include "kernels/device/device.h"

namespace forge {

struct StepOptions {
  StepShape shape;
  bool aten = false;         // every op runs in ATen; set by the provider
  double neftune_alpha = 0;  // 0: no noise on the embeddings
  // Sizes that the plan laid out memory for. A larger batch is still computed, in more memory.
  BatchRoom training, evaluation;
  // Memory that providers use in turn: its content is gone when another provider begins. Null: the
  // provider's own.
  std::shared_ptr<DeviceBlock> arena = {};
};

// Returns the options of a job whose adapter changes `sites`, without the plan's sizes.
StepOptions step_options(const ModelSpec& spec, const Job& job, const std::vector<AdapterSite>& sites, StepChoice choice);
// Returns the options with a fixed policy of recomputation, and otherwise as a family wrote its
// lists.
StepOptions step_options(const ModelSpec& spec, const Job& job, const std::vector<AdapterSite>& sites,
                         Checkpointing policy);
// Returns the options with those that the provider sets: all providers are one program. Throws
// Error(internal) for a name that the plan should never hold.
StepOptions provider_options(const std::string& provider, StepOptions options);

}  // namespace forge
