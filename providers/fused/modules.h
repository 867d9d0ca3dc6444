#pragma once
// The modules of a step in the device's memory, read from the model's tensors.
#include <vector>

#include "core/model/bound.h"
#include "kernels/call/step_weights.h"

namespace forge {

class FusedModules : public StepWeights {
 public:
  // `modules` must outlive the object. `type` is the compute type. `folded`: adapters are folded
  // into the products of their weights. `ahead`: decodes_ahead() of the lists.
  FusedModules(ComputeDevice& device, std::vector<BoundModule> bound, const std::vector<ModuleUse>& modules, Element type, bool folded = false,
               bool ahead = false);

  const std::vector<BoundModule>& bound() const { return bound_; }
  // Reads the tensors again: gradients are allocated after the model, and weights may move.
  void refresh();

 private:
  std::vector<BoundModule> bound_;
  DeviceBlock books_;
};

}  // namespace forge
