#pragma once
// One op of a list while it runs: the state that ops.cpp and linear.cpp read.
#include "core/graph/graph.h"
#include "providers/fused/arena.h"
#include "providers/fused/batch.h"
#include "providers/fused/modules.h"

namespace forge {

struct FusedRun {
  ComputeDevice& device;
  const StepMemory& m;
  const Op& op;
  void* workspace;
  FusedModules& modules;
  const StepBatch& batch;

  ValueId in(size_t i) const { return op.in[i]; }
  ValueId out(size_t i) const { return op.out[i]; }
  const FusedModule& module(size_t i = 0) const { return modules[op.modules[i]]; }
  const ModuleUse& use(size_t i = 0) const { return m.graph.module(op, i); }
  Element type() const { return m.type; }
  int64_t bytes() const { return bytes_of(m.type); }
};

}  // namespace forge
