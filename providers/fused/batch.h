#pragma once
// The memory of a micro-batch on the device.
#include <vector>

#include "core/model/batch_tensors.h"
#include "kernels/device/device.h"
#include "kernels/call/step_batch.h"

namespace forge {

// Owns the memory that a StepBatch points to, except for the tensors of the micro-batch, which must
// outlive it. On a device with memory of its own it owns all of it, in places that micro-batches of
// one shape share.
class BatchMemory {
 public:
  // Batches of a list, computed in `type`.
  BatchMemory(ComputeDevice& device, const Graph& list, Element type);
  StepBatch load(const BatchTensors& batch);
  // Releases the batch's own tensors before those of the next batch are made.
  void release() { rope_ = window_rope_ = grown_rope_ = {}; }
  // Returns the address of the numbers for the device, valid until the next call.
  const float* on_device(const std::vector<float>& numbers);

 private:
  void load_separate(const BatchTensors& batch, StepBatch& step);
  template <class T>
  void settle(const T*& values, int64_t count, char*& to);

  ComputeDevice& device_;
  int64_t attention_block_;  // of attention that is computed in turns (attention_turns.h); 0: none is
  RopeTables rope_, window_rope_, grown_rope_;
  DeviceBlock rows_, numbers_;
  ExpertEnds expert_ends_;
  std::vector<Gemm> products_;
};

}  // namespace forge
