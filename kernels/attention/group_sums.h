#pragma once
// Gradients of every query head added up to those of the key head that it reads, for keys and
// values at once:
//
//   y[token, k] = Σ_g x[token, k · group + g]      in fp32, rounded once
//
// x [tokens, kv_heads · group, head_dim] without gaps; y [tokens, kv_heads, head_dim], a stride is
// elements from token to token. Moves every operand once.
#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/device/launch.h"

namespace forge {

struct GroupSums {
  Element type = Element::f32;
  int64_t tokens = 0, kv_heads = 0, group = 0, head_dim = 0;
  const void* x[2] = {};
  void* y[2] = {};
  int64_t y_stride[2] = {};
};

void group_sums_cuda(const GroupSums& args, CudaStream stream);

struct ClearedSums {
  void* sums = nullptr;
  int64_t bytes = 0;
};

// Enqueues zeros before a backward that adds to them.
void clear_sums_cuda(const ClearedSums& args, CudaStream stream);

}  // namespace forge
