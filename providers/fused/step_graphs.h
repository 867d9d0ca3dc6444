#pragma once
// Work of a list that was captured once and is replayed for micro-batches of the same shape.
//
//   graphs.run(device, memory, modules, batch, [&] { queue the ops });
//
// An op reads nothing on the host but its list, where it lies, its modules and the batch; all of that is the key of a graph. So no
// graph holds a number of another step: a micro-batch that differs in any of it (its sequences, a dropout's step, a gradient that
// moved) is queued op by op. What is not in the key lies in the device's memory, in its places: ids, angles, weights, gradients.
#include <functional>
#include <memory>
#include <vector>

#include "providers/fused/arena.h"
#include "providers/fused/batch.h"
#include "providers/fused/modules.h"

namespace forge {

class StepGraphs {
 public:
  // The first time it queues `work`, the second time it captures it.
  void run(ComputeDevice& device, const StepMemory& memory, const FusedModules& modules, const StepBatch& batch,
           const std::function<void()>& work);

 private:
  struct Entry {
    int64_t tokens = 0, targets = 0;
    char* arena = nullptr;
    StepBatch batch;
    std::vector<FusedModule> modules;
    std::unique_ptr<Captured> graph;
    int64_t used = 0;
  };
  Entry& entry_of(const StepMemory& memory, const FusedModules& modules, const StepBatch& batch);

  std::vector<Entry> entries_;
  int64_t uses_ = 0;
};

}  // namespace forge
