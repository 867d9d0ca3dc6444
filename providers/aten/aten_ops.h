#pragma once
// Ops of a step's list in ATen, on the values in its arena: the device has no kernel for them
// (aten_plan.h). A forward op is its definition (core/model/forward.h). The gradient of an op is
// that of its definition under autograd, on detached inputs, unless it is a formula of few lines.
#include <vector>

#include "core/model/bound.h"
#include "core/model/forward.h"
#include "kernels/call/arena.h"
#include "kernels/call/step_batch.h"
#include "kernels/device/device.h"

namespace forge {

// Returns the memory of a list without room for a micro-batch, and which of its ops ATen computes.
StepMemory memory_of(const Graph& list, const Model& model, const ComputeDevice& device, bool aten);
// Returns a value in its place. [rows, width]
at::Tensor tensor_of(const StepMemory& m, ValueId id, c10::Device device);

class AtenOps {
 public:
  // `modules` are those of the list, and must outlive the object like the others.
  AtenOps(ComputeDevice& device, const Model& model, const std::vector<BoundModule>& modules)
      : device_(device), model_(model), modules_(modules) {}

  // Computes an op of m.graph. `batch` and `step` are the micro-batch at hand.
  void run(const StepMemory& m, const Op& op, const BatchTensors& batch, const StepBatch& step) const;

 private:
  ComputeDevice& device_;
  const Model& model_;
  const std::vector<BoundModule>& modules_;
};

}  // namespace forge
