#include "kernels/call/run.h"

#include "core/graph/op_record.h"

namespace forge {

void run_op(const OpRun& r) {
  FORGE_CHECK(r.op.kind->run, name_of(r.op.kind) << " is not an op of a layer");
  r.op.kind->run(r);
}

void run_op(ComputeDevice& device, const StepMemory& memory, size_t index, StepWeights& weights, const StepBatch& batch) {
  run_op(OpRun(device, memory, memory.graph.ops[index], memory.workspace(index), weights, batch));
}

}  // namespace forge
