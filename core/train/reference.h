#pragma once
// The model that answers are compared with, as far as anybody asks: the log-probability of each answer.
//
// Two ways, chosen by the plan (objective.reference_cache). Computed beside each micro-batch: a second provider over the
// base's own weights, without the adapter. Or kept: the log-probability of every supervised token of the data, in
// RUN/reference.safetensors, made before the first step and right for everything that the run starts from (PiSSA's
// factors, an adapter that is continued, weights that are trained themselves). kto's answers behind other prompts are known
// beforehand too, since a step's examples are: of each their sum is kept.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/data/batch/mismatch.h"
#include "core/data/dataset.h"
#include "core/train/session.h"

namespace forge {

struct StopFlag;

class Reference {
 public:
  virtual ~Reference() = default;
  // Σ logp over the supervised tokens of each sequence of a batch of `data`.
  virtual std::vector<double> sums(const DataSet& data, const Batch& batch, const BatchTensors& tensors) = 0;
  // The same of answers behind other prompts, of which `tensors` is the batch.
  virtual std::vector<double> mismatched_sums(const DataSet& data, const std::vector<Mismatch>& batch, const BatchTensors& tensors) = 0;
};

// The base's log-probabilities token by token, for completions that are only now drawn. Null where nothing needs them (needs_base).
class BaseLogps {
 public:
  virtual ~BaseLogps() = default;
  virtual std::vector<double> of(const BatchTensors& batch, double temperature) = 0;
};
std::unique_ptr<BaseLogps> open_base_logps(const Session& session);

struct ReferenceRequest {
  const DataSet* train = nullptr;  // whose answers will be asked for, in the plan's steps
  const DataSet* eval = nullptr;   // the same of an evaluation's; null: none
  std::string path;                // where they are kept; empty: in memory alone
  bool at_start = true;            // the session's weights are those that the run starts from
  std::function<void(const std::string& text)> warn = nullptr;  // is told of kept ones that are damaged and made again
};

// Null where the objective compares with none. Reads or makes what is kept. Throws StepInterrupted when a stop is asked
// for, Error(environment) when what was kept is gone or damaged and training has moved the weights.
std::unique_ptr<Reference> open_reference(Session& session, const ReferenceRequest& request, const StopFlag& stop);

// A model as its files have it, to be asked beside another one.
std::unique_ptr<Reference> loaded_reference(LoadedModel loaded, const std::string& provider);

}  // namespace forge
