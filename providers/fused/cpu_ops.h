#pragma once
// Runs the ops of a list on a CPU: each from its values' places to a kernel's arguments. Products are LibTorch's.
#include "core/model/batch_tensors.h"
#include "core/model/bound.h"
#include "providers/fused/arena.h"
#include "providers/fused/kv_cache.h"

namespace forge {

// Decoding: where keys and values of the micro-batch go, and where those of earlier tokens lie.
struct CachePlaces {
  const KvCache* cache = nullptr;
  std::vector<char>* scratch = nullptr;  // for products, kept from op to op
  bool begins = false;                   // every sequence begins here: attention is as in training
  CacheShape shape;
  std::vector<int32_t> sequences, positions;  // by token
  std::vector<int32_t> lengths;               // by sequence, with the new token
};

// The micro-batch as the kernels read it.
struct StepBatch {
  const BatchTensors* tensors = nullptr;
  at::Tensor cosine, sine;             // fp32 [tokens, rotary_dim / 2]
  const CachePlaces* cache = nullptr;  // decoding
};

// Runs op number `index` of `memory.graph`. The head and what follows it are the caller's.
void run_cpu_op(const StepMemory& memory, size_t index, const std::vector<BoundModule>& modules,
                const StepBatch& batch);

// y = x Wᵀ + bias by kernels/product, whose rows do not know of each other. y [rows, out] of x's type or fp32, x [rows, in], W
// [out, in] without gaps.
void row_product(at::Tensor y, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                 std::vector<char>& scratch);

}  // namespace forge
