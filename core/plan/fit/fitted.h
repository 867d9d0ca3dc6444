#pragma once
// A run that fits into the memory of its device.
#include <algorithm>

#include "core/data/batch/order.h"
#include "core/model/families/adapter_sites.h"
#include "core/model/families/parameters.h"
#include "core/plan/memory/memory.h"
#include "core/plan/stages/schedule.h"

namespace forge {

// The maxima of a batch, which are not necessarily those of one batch.
struct BatchRoom {
  int64_t tokens = 0, targets = 0;  // targets: supervised positions
  int64_t source = 0;               // of the tokens, those that an encoder reads
};

// The memory that a run takes.
struct RunMemory {
  std::vector<MemoryLine> memory;
  std::vector<MemoryLine> host_memory;  // pinned in the host by a GPU's run; no part of the peak
  BatchRoom training_batch, evaluation_batch;  // sizes that the engine lays out memory for
  int64_t predicted_peak_bytes = 0;  // the sum of the lines: what the engine's allocator will see
};

// Returns the bytes of a GPU with `bytes` free that a plan leaves to LibTorch's allocator. It maps
// memory for each stream in pages of 2 and 20 MiB and so takes more than is in use: full
// fine-tuning with 8-bit states, planned to 2.1 GiB, needed between 1 and 3 % more
// (tests/hollow/check_hollow.py, "filled card").
inline int64_t allocator_slack(int64_t bytes) { return std::max(int64_t{96} << 20, bytes / 100); }

// Settled in the job: train.micro_batch_tokens and _size, train.activation_checkpointing,
// train.activation_offloading, optimizer.offload.
struct Fitted : Schedule, RunMemory {
  ParameterCounts parameters;
  std::vector<TargetMatch> targets;  // adapted linears by target
  int64_t available_bytes = 0;       // of the device, less the runtime's reserve and a GPU's allocator_slack

  // Returns the bytes that the engine's allocator may take.
  int64_t memory_limit() const { return available_bytes + (device.cuda ? allocator_slack(available_bytes) : 0); }
};

// Returns the tokens of one batch of an evaluation: those of a training micro-batch, so that it
// needs no more memory.
inline int64_t evaluation_tokens(const MicroBatch& micro_batch) { return std::max<int64_t>(1, micro_batch.tokens); }
inline int64_t evaluation_tokens(const Setup& plan) { return evaluation_tokens({.tokens = *plan.job.train.micro_batch_tokens}); }

}  // namespace forge
