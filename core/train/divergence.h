#pragma once
// Estimates the distance of the model from its reference for kto: z₀ = max(0, mean l) over answers
// to prompts that they were not written for (core/data/mismatch.h). It is a constant for the
// gradient, and is the same however the step is cut.
#include <functional>
#include <vector>

#include "core/data/mismatch.h"
#include "core/train/pass.h"
#include "core/train/session.h"

namespace forge {

// Calls `take` for batches of an evaluation's size. Throws StepInterrupted when a stop is asked
// for.
using TakeMismatched = std::function<void(const std::vector<Mismatch>& batch, const BatchTensors& tensors)>;
struct MismatchedBatches {
  const Model& model;
  const DataSet& data;
  int64_t batch_tokens = 0, max_length = 0;  // of a batch, and of an example
  World world = {};
};
MismatchedBatches mismatched_batches(const Session& session, const DataSet& data);
void for_each_mismatched(const MismatchedBatches& batches, const std::vector<Mismatch>& all, const StopFlag& stop,
                         const TakeMismatched& take);

// Returns the divergence over these examples. It is 0 for an objective that estimates none, and if
// all prompts are the same.
double divergence_of(Network& network, Reference* reference, const ObjectiveConfig& objective, const MismatchedBatches& batches,
                     const std::vector<int64_t>& examples, const StopFlag& stop);
double divergence_of(Session& session, const DataSet& data, const std::vector<int64_t>& examples, const StopFlag& stop);
std::vector<int64_t> all_examples(const DataSet& data);

}  // namespace forge
