#pragma once
// A call before there is memory: its arena, its modules and its micro-batch are only addresses,
// which nothing reads. No torch.
#include <vector>

#include "providers/fused/call.h"

namespace forge {

class PlannedCall {
 public:
  // `graph` and `op` must outlive the object. The micro-batch has the tokens of `sizes`.
  PlannedCall(const Graph& graph, const Op& op, const StepSizes& sizes);
  PlannedCall(const PlannedCall&) = delete;

  operator const Call&() const { return call_; }  // NOLINT(google-explicit-constructor)

 private:
  StepMemory memory_;
  StepBatch batch_;
  std::vector<FusedModule> modules_;
  Call call_;
};

}  // namespace forge
