#pragma once
// Builds the lists of operations that a provider runs: a family's layers with everything around
// them.
//
//   Graph step = training_step({spec, module_training(spec, adapter, sites)});
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "core/job/job.h"
#include "core/model/families/adapter_sites.h"
#include "core/model/graph/recompute.h"
#include "core/graph/recorder.h"
#include "core/model/families/trained_layout.h"

namespace forge {

// Returns the modules that a job trains. `sites` are those of adapter_sites(), or an adapter
// folder's, with the same `experts`. `quantization` is that of the frozen weights.
ModuleTraining module_training(const ModelSpec& spec, const AdapterConfig& adapter,
                               const std::vector<AdapterSite>& sites,
                               Quantization quantization = Quantization::none,
                               Experts experts = Experts::one_by_one);
// Returns the training of the job's base by itself: nothing is trained. Modules that the job trains
// whole are not quantised.
ModuleTraining base_training(const ModelSpec& spec, const AdapterConfig& adapter,
                             Quantization quantization, Experts experts = Experts::one_by_one);

// Elements that a run trains, and the bytes that one update reads and writes.
struct TrainedSize {
  int64_t elements = 0, update_bytes = 0;
  bool operator==(const TrainedSize&) const = default;
};
// Returns the size of `layout`. Weights have a copy in the compute type `precision` unless it is
// fp32.
TrainedSize trained_size(const TrainedLayout& layout, Precision precision);

// Returns the type of a job's residual stream. A job of an older forge, which does not say it, had
// the compute type.
inline Residual residual_of(const Job& job) { return job.train.residual.value_or(Residual::compute); }

// The choices of a run for a model's lists.
struct StepChoice {
  Recomputed recompute;
  TrainedSize trained;      // no elements: no update
  bool fused_head = false;  // no logits: kernels/lm_head
  bool folded_adapters = false;  // into products of frozen weights (core/model/graph/fold_adapters.h)
  bool kept_norms = false;       // norms' results stay for the gradients of weights that read them
  bool folded_residuals = false;  // branches are added to the stream by their last product (core/model/graph/fold_residuals.h)
  bool offloaded = false;         // layers' inputs wait in host memory (core/model/graph/offload.h)

  bool operator==(const StepChoice&) const = default;
};
// Everything that determines the lists of a run.
struct StepShape : StepChoice {
  ModelSpec spec;
  ModuleTraining training;
  Residual residual = Residual::compute;  // the type of the residual stream

  StepShape() = default;
  StepShape(ModelSpec model, ModuleTraining trains = {}, StepChoice choice = {}, Residual stream = Residual::compute)
      : StepChoice(std::move(choice)), spec(std::move(model)), training(std::move(trains)), residual(stream) {}
};

// Returns the values that `policy` computes again in the backward.
Recomputed recomputed_by(const StepShape& shape, Checkpointing policy);

// Returns the training list: embedding, layers, final norm and head, forward and backward, and the
// update.
Graph training_step(const StepShape& shape);
// Returns the training list of a forward list.
Graph training_step(Graph forward, const StepChoice& choice);
// Returns the forward list alone, which ends in the log-probabilities of the targets.
Graph evaluation_step(const StepShape& shape);
// Returns the forward list as the family wrote it, op by op. It is run under autograd and, with
// caches, in decoding.
Graph forward_list(const StepShape& shape);

// Keeps the lists of one model and of what it trains. A plan tries many micro-batches, on which no
// list depends.
//
//   StepLists lists({spec, module_training(spec, adapter, sites)});
//   const Graph& step = lists.training({.recompute = again, .folded_adapters = true});
class StepLists {
 public:
  // Takes the spec, training and residual type of `shape`. The choices come with each step.
  explicit StepLists(StepShape shape) : shape_(std::move(shape)), forward_(forward_list(shape_)) {}

  const ModuleTraining& trains() const { return shape_.training; }
  const Graph& forward() const { return forward_; }

  // Return the list for `choice`. It is held until another choice is asked for.
  const Graph& training(const StepChoice& choice);
  const Graph& evaluation(const StepChoice& choice);

 private:
  StepShape shape_;
  Graph forward_;
  std::array<std::optional<Graph>, 2> training_forward_;  // index: the head is fused
  struct Made {
    StepChoice choice;
    Graph list;
  };
  template <typename Make>
  const Graph& made(std::optional<Made>& last, const StepChoice& choice, const Make& make);

  std::optional<Made> training_, evaluation_;
};

}  // namespace forge
