#pragma once
// What a provider is made for.
#include <memory>

#include "core/families/adapter_sites.h"
#include "core/families/step.h"
#include "core/plan/plan.h"
#include "kernels/device/device.h"

namespace forge {

struct StepOptions {
  StepShape shape;
  double neftune_alpha = 0;  // 0: no noise on the embeddings
  // What the plan laid out memory for. A larger batch is computed all the same, in more.
  BatchRoom training, evaluation;
  // Memory that providers take in turn: what one left there is gone when another begins. Null: its own.
  std::shared_ptr<DeviceBlock> arena = {};
};

// Those of a job whose adapter changes `sites`, without the plan's sizes.
StepOptions step_options(const ModelSpec& spec, const Job& job, const std::vector<AdapterSite>& sites, StepChoice choice);
// With a fixed choice of what is computed again, and else as a family wrote its lists.
StepOptions step_options(const ModelSpec& spec, const Job& job, const std::vector<AdapterSite>& sites,
                         Checkpointing policy);

}  // namespace forge
