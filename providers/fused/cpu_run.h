#pragma once
// One op of a list at work on a CPU: what cpu_ops.cpp and cpu_linear.cpp read of it.
#include "core/graph/graph.h"
#include "providers/fused/cpu_ops.h"

namespace forge {

struct CpuRun {
  const StepMemory& m;
  const Op& op;
  void* workspace;
  const std::vector<BoundModule>& modules;
  const StepBatch& batch;

  ValueId in(size_t i) const { return op.in[i]; }
  ValueId out(size_t i) const { return op.out[i]; }
  const BoundModule& module(size_t i = 0) const { return modules[static_cast<size_t>(op.modules[i])]; }
  const ModuleUse& use(size_t i = 0) const { return m.graph.module(op, i); }
  Element type() const { return element_of(m.type); }
  const BatchTensors& tensors() const { return *batch.tensors; }
};

}  // namespace forge
