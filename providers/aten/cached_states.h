#pragma once
// The ops of a decoder's list that read and write texts' states, in ATen: for devices without a
// kernel for them.
#include "core/model/batch_tensors.h"
#include "core/model/bound.h"
#include "core/model/decoder.h"
#include "core/model/model.h"
#include "kernels/call/arena.h"
#include "providers/fused/text_states.h"

namespace forge {

class CachedStates {
 public:
  CachedStates(ComputeDevice& device, const Model& model, const std::vector<BoundModule>& modules,
               const TextStates& states)
      : device_(device), model_(model), modules_(modules), states_(states) {}

  // True for an op that goes on from states.
  static bool reads(const Op& op);
  // Runs it over the new tokens, of texts that all begin here or all go on.
  void run(const StepMemory& m, const Op& op, const std::vector<NewTokens>& tokens,
           const BatchTensors& batch, bool begins) const;

 private:
  at::Tensor value(const StepMemory& m, ValueId id, bool writes) const;
  void convolve(const StepMemory& m, const Op& op, const std::vector<NewTokens>& tokens,
                const BatchTensors& batch, bool begins) const;
  void mix(const StepMemory& m, const Op& op, const std::vector<NewTokens>& tokens,
           const BatchTensors& batch, bool begins) const;

  ComputeDevice& device_;
  const Model& model_;
  const std::vector<BoundModule>& modules_;
  const TextStates& states_;
};

}  // namespace forge
