#pragma once
// Dropout whose mask is a function of (seed, step, module, example, position, feature), never of
// call order: recompute, micro-batches, packing and resume see the same mask.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace forge {

// Source of each row of a micro-batch, and the key of the step.
struct RowKeys {
  uint64_t seed = 0;
  int64_t step = 0;
  std::vector<int64_t> example;   // [tokens]
  std::vector<int32_t> position;  // [tokens]
};

// Drops each element of x [tokens, features] with `probability` and scales the rest by 1 / (1 -
// probability). `module` is stream_of(module name). Differentiable in x.
at::Tensor counter_dropout(const at::Tensor& x, double probability, uint64_t module, const RowKeys& rows);

// Returns uniform numbers in [-1, 1) by the same rule, [tokens, features] in fp32 on the CPU:
// NEFTune's noise.
at::Tensor counter_noise(int64_t features, uint64_t module, const RowKeys& rows);

}  // namespace forge
