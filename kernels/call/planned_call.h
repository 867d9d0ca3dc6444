#pragma once
// A call before there is memory: its arena, its modules and its micro-batch are only addresses,
// which nothing reads. No torch.
#include <vector>

#include "kernels/call/call.h"

namespace forge {

// The form in which frozen linear layers are held, if it is not the type in which they are
// multiplied.
struct GpuStep {
  bool in_blocks = false, converted = false;
};

class PlannedCall {
 public:
  // `graph` and `op` must outlive the object. The micro-batch has the tokens of `sizes`.
  PlannedCall(const Graph& graph, const Op& op, const StepSizes& sizes, const GpuStep& held = {});
  PlannedCall(const PlannedCall&) = delete;

  operator const Call&() const { return call_; }  // NOLINT(google-explicit-constructor)
  // Returns the list's modules from the op's first one on.
  const std::vector<OpModule>& modules() const { return modules_; }

 private:
  StepMemory memory_;
  ExpertEnds ends_;
  StepBatch batch_;
  std::vector<OpModule> modules_;
  Call call_;
};

// Returns the bytes that the kernels of an op need beside its values, from the arguments that the
// engine gives them.
int64_t planned_workspace(const Graph& graph, const Op& op, const StepSizes& sizes);

}  // namespace forge
