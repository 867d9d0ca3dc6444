#pragma once
// Attention of a decoder's list over a cache in pages, in ATen: for devices without a kernel for
// it, and for attention that no kernel computes. A page holds rows of tokens here, keys and values
// [kCachePage, kv_heads, head_dim].
#include <ATen/core/Tensor.h>

#include <vector>

#include "core/model/batch_tensors.h"
#include "core/model/bound.h"
#include "core/model/decoder.h"
#include "core/model/model.h"
#include "kernels/call/arena.h"
#include "providers/fused/kv_cache.h"

namespace forge {

class CachedRows {
 public:
  CachedRows(ComputeDevice& device, const Model& model, const std::vector<BoundModule>& modules, KvCache& cache)
      : device_(device), model_(model), modules_(modules), cache_(cache) {}

  // Takes the places of new tokens, whose sequences have `before` already; the cache has pages for
  // all of them.
  void begin(const std::vector<NewTokens>& tokens, const Batch& batch, const std::vector<int64_t>& before);
  // Writes the keys and values of the new tokens to their places.
  void store(const StepMemory& m, const Op& op) const;
  // Computes the new tokens' attention over all of their sequence.
  void attend(const StepMemory& m, const Op& op, const BatchTensors& batch) const;

 private:
  struct Sequence {
    int64_t first = 0, count = 0;  // of the new tokens
    int64_t length = 0;
    at::Tensor pages;  // int64, in order
  };
  const CacheLayer& layer_of(const Op& op) const;
  at::Tensor rows_of(const Op& op, int64_t part) const;
  at::Tensor value(const StepMemory& m, const Op& op, ValueId id, bool writes) const;

  ComputeDevice& device_;
  const Model& model_;
  const std::vector<BoundModule>& modules_;
  KvCache& cache_;
  std::vector<Sequence> sequences_;
  at::Tensor page_, slot_;  // int64 [tokens]
};

}  // namespace forge
