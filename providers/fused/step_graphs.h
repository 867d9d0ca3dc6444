#pragma once
// The key of a list's captures, which distinguishes one micro-batch's work from another's.
//
// On the host, an op reads only its list, its places, its modules and the batch's numbers and
// places. Everything that is not in the key is in the device's memory at fixed places: ids, angles,
// a dropout's step, weights, gradients.
#include <vector>

#include "kernels/device/captures.h"
#include "kernels/call/arena.h"
#include "kernels/call/step_batch.h"
#include "providers/fused/modules.h"

namespace forge {

struct StepKeySeen {
  int64_t layout = 0;  // its number: places may have changed in the same memory
  int64_t tokens = 0, targets = 0;
  const char* arena = nullptr;
  const StepBatch& batch;
  const std::vector<OpModule>& modules;
};

struct StepKey {
  explicit StepKey(const StepKeySeen& seen)
      : layout(seen.layout), tokens(seen.tokens), targets(seen.targets), arena(seen.arena), batch(seen.batch), modules(seen.modules) {}
  bool operator==(const StepKeySeen& seen) const {
    return layout == seen.layout && tokens == seen.tokens && targets == seen.targets && arena == seen.arena && batch == seen.batch && modules == seen.modules;
  }

  int64_t layout, tokens, targets;
  const char* arena;
  StepBatch batch;
  std::vector<OpModule> modules;
};

using StepGraphs = Captures<StepKey, StepKeySeen>;

}  // namespace forge
