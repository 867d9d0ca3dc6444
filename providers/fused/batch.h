#pragma once
// The micro-batch as the kernels read it, in the device's memory.
#include <ATen/core/Tensor.h>

#include <map>
#include <vector>

#include "core/graph/graph.h"
#include "core/model/batch_tensors.h"
#include "kernels/device/device.h"
#include "providers/fused/kv_cache.h"

namespace forge {

// Decoding: where keys and values of the micro-batch go, and where those of earlier tokens lie.
struct CachePlaces {
  const KvCache* cache = nullptr;
  std::vector<char>* scratch = nullptr;  // for products, kept from op to op
  bool begins = false;                   // every sequence begins here: attention is as in training
  CacheShape shape;
  std::vector<int32_t> sequences, positions;  // by token: its row of pages, its place there
  std::vector<int32_t> lengths;               // by row of pages: a sequence that begins, or one more token of one that goes on
};

// Where experts' rows end, by the value that holds it: on the host, of a device whose memory it cannot read.
using ExpertEnds = std::map<ValueId, std::vector<int32_t>>;

struct StepBatch {
  int64_t sequences = 0, longest = 0;         // tokens of the longest sequence
  const int64_t* ids = nullptr;               // [tokens]
  const int64_t* loss_positions = nullptr;    // [targets]
  const int64_t* loss_targets = nullptr;      // [targets]
  const int32_t* cu_seqlens = nullptr;        // [sequences + 1]
  const int64_t* position_ids = nullptr;      // [tokens], of learned positions
  const float *cosine = nullptr, *sine = nullptr;  // [tokens, rotary_dim / 2]
  const float *window_cosine = nullptr, *window_sine = nullptr;  // of layers with a window, where they turn otherwise
  int64_t rotary_dim = 0;
  bool dropout = false;  // and these keys
  uint64_t seed = 0;
  const int64_t* step = nullptr;         // [1]
  const int64_t* example = nullptr;      // [tokens]
  const int32_t* position = nullptr;     // [tokens]
  const CachePlaces* cache = nullptr;    // decoding
  ExpertEnds* expert_ends = nullptr;     // those that this micro-batch's routers have made
  std::vector<Gemm>* products = nullptr;  // where an op collects a group of them
  const float* balance_slope = nullptr;  // [experts]: of the loss that balances them, in each probability's sum; null: none

  bool operator==(const StepBatch&) const = default;
};

// Owns what a StepBatch points to beside the tensors of the micro-batch, which must outlive it. On a device with memory of its own
// all of it, in places that micro-batches of one shape share.
class BatchMemory {
 public:
  explicit BatchMemory(ComputeDevice& device) : device_(device) {}
  StepBatch load(const BatchTensors& batch);
  // Lets go of what was the batch's own, so that it is gone before the next one is made.
  void release() { rope_ = window_rope_ = {}; }
  // Numbers where the device reads them, until they are others.
  const float* on_device(const std::vector<float>& numbers);

 private:
  void load_separate(const BatchTensors& batch, StepBatch& step);
  template <class T>
  void settle(const T*& values, int64_t count, char*& to);

  ComputeDevice& device_;
  RopeTables rope_, window_rope_;
  DeviceBlock rows_, numbers_;
  ExpertEnds expert_ends_;
  std::vector<Gemm> products_;
};

}  // namespace forge
