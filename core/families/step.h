#pragma once
// A family's layers with everything around them, as the lists that a provider runs.
//
//   Graph step = training_step({spec, module_training(spec, adapter, sites)});
#include <utility>
#include <vector>

#include "core/config/job.h"
#include "core/families/adapter_sites.h"
#include "core/graph/recompute.h"
#include "core/graph/recorder.h"
#include "core/families/trained_layout.h"

namespace forge {

// What a job trains; `sites` are those of adapter_sites(), or an adapter folder's. `quantization`: of what is frozen.
ModuleTraining module_training(const ModelSpec& spec, const AdapterConfig& adapter,
                               const std::vector<AdapterSite>& sites, Quantization quantization = Quantization::none);
// Of the job's base by itself, of which nothing is trained. What the job trains whole is not quantised.
ModuleTraining base_training(const ModelSpec& spec, const AdapterConfig& adapter, Quantization quantization);

// All that a run trains, as the optimizer sees it.
struct TrainedSize {
  int64_t elements = 0, update_bytes = 0;
  bool operator==(const TrainedSize&) const = default;
};
// `precision`: the compute type, of which weights have a copy where it is not fp32.
TrainedSize trained_size(const TrainedLayout& layout, Precision precision);

// The type of a job's residual stream. One that says none, of an older forge, had the compute type.
inline Residual residual_of(const Job& job) { return job.train.residual.value_or(Residual::compute); }

// What a run chooses for a model's lists.
struct StepChoice {
  Recomputed recompute;
  TrainedSize trained;      // without elements: no update
  bool fused_head = false;  // no logits: kernels/lm_head
  bool folded_adapters = false;  // in the products of their frozen weights (core/graph/fold_adapters.h)
  bool kept_norms = false;       // their results stay for the gradients of weights that read them
  bool folded_residuals = false;  // branches are added to the stream by their last product (core/graph/fold_residuals.h)
  bool offloaded = false;         // layers' inputs wait for the backward in the host's memory (core/graph/offload.h)

  bool operator==(const StepChoice&) const = default;
};
// All that decides the lists of a run.
struct StepShape : StepChoice {
  ModelSpec spec;
  ModuleTraining training;
  Residual residual = Residual::compute;  // the type of the residual stream

  StepShape() = default;
  StepShape(ModelSpec model, ModuleTraining trains = {}, StepChoice choice = {}, Residual stream = Residual::compute)
      : StepChoice(std::move(choice)), spec(std::move(model)), training(std::move(trains)), residual(stream) {}
};

// What a fixed choice computes again.
Recomputed recomputed_by(const StepShape& shape, Checkpointing policy);

// Embedding, layers, final norm and head, forward and backward; and the update.
Graph training_step(const StepShape& shape);
// The same in two: of what is chosen the forward list depends on the head alone.
Graph training_forward(const StepShape& shape);
Graph training_step(Graph forward, const StepChoice& choice);
// The forward list alone, which ends in the log-probabilities of the targets.
Graph evaluation_step(const StepShape& shape);
// The same as the family wrote it, op by op: what is run under autograd and, with caches, in decoding.
Graph forward_list(const StepShape& shape);

}  // namespace forge
