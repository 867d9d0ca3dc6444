#pragma once
// One op of a list while it runs: a call with the device and the weights that it converts. The
// device may be one that only lists what it is given (listed_launches.cpp). No torch.
#include "core/graph/op_record.h"
#include "kernels/call/call.h"
#include "kernels/call/step_weights.h"
#include "kernels/device/device.h"

namespace forge {

struct OpRun : Call {
  OpRun(ComputeDevice& device, const StepMemory& m, const Op& op, void* workspace, StepWeights& weights,
           const StepBatch& batch)
      : Call{m, op, workspace, weights.all(), weights.first(), batch, weights.counters()},
        device(device),
        weights(weights) {}
  // Runs another op with the same memory: a part of r's.
  OpRun(const OpRun& r, const Op& part)
      : OpRun(r.device, r.m, part, r.workspace, r.weights, r.batch) {}

  ComputeDevice& device;
  StepWeights& weights;
};

// Runs an op by its record.
inline void run_op(const OpRun& r) {
  FORGE_CHECK(r.op.kind->run, name_of(r.op.kind) << " is not an op of a layer");
  r.op.kind->run(r);
}
// Runs op number `index` of `memory.graph`. The caller runs the head and the ops after it.
inline void run_op(ComputeDevice& device, const StepMemory& memory, size_t index, StepWeights& weights, const StepBatch& batch) {
  run_op(OpRun(device, memory, memory.graph.ops[index], memory.workspace(index), weights, batch));
}

// Runs the one kernel whose arguments a function makes: an OpRecord::run.
template <auto kArguments>
void by(const OpRun& r) {
  r.device.run(kArguments(r));
}

}  // namespace forge
