#pragma once
// A family's layers with everything around them, as the lists that a provider runs.
//
//   Graph step = training_step({spec, module_training(spec, adapter, sites)});
#include <vector>

#include "core/config/job.h"
#include "core/graph/recompute.h"
#include "core/graph/recorder.h"
#include "core/families/parameters.h"

namespace forge {

// What a job trains; `sites` are those of adapter_sites(), or an adapter folder's.
ModuleTraining module_training(const ModelSpec& spec, const AdapterConfig& adapter,
                               const std::vector<AdapterSite>& sites);

// What decides the lists of a run.
struct StepShape {
  ModelSpec spec;
  ModuleTraining training;
  Recomputed recompute;
};

// What a fixed choice computes again.
Recomputed recomputed_by(const StepShape& shape, Checkpointing policy);

// Embedding, layers, final norm and head, forward and backward.
Graph training_step(const StepShape& shape);
// The forward list alone, which ends in the log-probabilities of the targets.
Graph evaluation_step(const StepShape& shape);
// The same as the family wrote it, op by op: what is run under autograd and, with caches, in decoding.
Graph forward_list(const StepShape& shape);

}  // namespace forge
