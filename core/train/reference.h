#pragma once
// The reference model that answers are compared with: it gives the log-probability of each answer.
//
// The plan chooses one of two ways (objective.reference_cache). Either a second provider over the
// base's own weights, without the adapter, computes the reference beside each micro-batch. Or the
// log-probability of every supervised token of the data is kept in RUN/reference.safetensors. That
// file is made before the first step and is right for everything that the run starts from (PiSSA's
// factors, an adapter that is continued, weights that are trained themselves). kto's answers to
// other prompts are known in advance too, since a step's examples are: the sum of each is kept.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/data/dataset.h"
#include "core/data/mismatch.h"
#include "core/train/session.h"

namespace forge {

class Reference {
 public:
  virtual ~Reference() = default;
  // Returns Σ logp over the supervised tokens of each sequence of a batch of `data`.
  virtual std::vector<double> sums(const DataSet& data, const Batch& batch, const BatchTensors& tensors) = 0;
  // Like sums(), for answers to other prompts; `tensors` holds `batch`.
  virtual std::vector<double> mismatched_sums(const DataSet& data, const std::vector<Mismatch>& batch, const BatchTensors& tensors) = 0;
};

struct ReferenceRequest {
  const DataSet* train = nullptr;  // data whose answers will be asked for, in the plan's steps
  const DataSet* eval = nullptr;   // data whose answers an evaluation will ask for; null: none
  std::string path;                // file that keeps the log-probabilities; empty: in memory alone
  bool at_start = true;            // the session's weights are those that the run starts from
  // Receives a warning about kept log-probabilities that are damaged and are computed again.
  std::function<void(const std::string& text)> warn = nullptr;
};

// Returns null if the objective compares with none. Reads or makes what is kept. Throws
// StepInterrupted when a stop is asked for, and Error(environment) when what was kept is gone or
// damaged and training has moved the weights.
std::unique_ptr<Reference> open_reference(Session& session, const ReferenceRequest& request, const StopFlag& stop);

// Returns a reference that computes with a model as its files have it, beside another model.
std::unique_ptr<Reference> loaded_reference(LoadedModel loaded, const std::string& provider);

// The data whose answers are paired with other prompts, and how much of them is computed at once.
struct MismatchedBatches {
  const Model& model;
  const DataSet& data;
  int64_t batch_tokens = 0, max_length = 0;  // of a batch, and of an example
  World world = {};
};

// Returns kto's estimate of the distance of the model from its reference over these examples: z₀ =
// max(0, mean l) over answers to prompts that they were not written for
// (core/data/mismatch.h). It is a constant for the gradient, and is the same however the step
// is cut. It is 0 for an objective that estimates none, and if all prompts are the same.
double divergence_of(Network& network, Reference* reference, const ObjectiveConfig& objective, const MismatchedBatches& batches,
                     const std::vector<int64_t>& examples, const StopFlag& stop);
double divergence_of(Session& session, const DataSet& data, const std::vector<int64_t>& examples, const StopFlag& stop);

}  // namespace forge
