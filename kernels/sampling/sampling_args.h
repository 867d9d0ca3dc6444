#pragma once
// Next-token sampling on plain memory: temperature, then top-k, top-p and min-p, then one draw from
// the remaining tokens. No sort: thresholds are found by bisecting the bits of the logits.
//
//   z = x / temperature
//   keep the top_k largest z
//   of those, keep the fewest largest whose probabilities reach top_p
//   of those, keep p ≥ min_p · max p
//   draw by the inverse of the cumulative distribution, in order of token number
//
// Equal logits stay or go together, so a tie may keep more than k. The draw of a row is a function
// of (seed, stream, index), the same on every backend except for a number within rounding of the
// border of two tokens. Temperature 0 takes the largest, the first among equals. A NaN is never
// drawn; a row without a finite logit gives token −1. Bytes: 4 vocab a pass; about 70 passes with
// all limits, which a cache serves.
#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/cpu/level.h"
#include "kernels/device/launch.h"

namespace forge {

struct Sampling {
  Element type = Element::f32;
  int64_t rows = 0, vocab = 0;
  const void* logits = nullptr;  // [rows, vocab], rows `stride` elements apart
  int64_t stride = 0;
  float temperature = 1;
  int64_t top_k = 0;           // 0: all
  float top_p = 1, min_p = 0;  // 1, 0: all
  uint64_t seed = 0;
  const uint64_t* streams = nullptr;  // [rows]
  const uint64_t* indices = nullptr;  // [rows]
  int64_t* tokens = nullptr;          // [rows]
  float* logp = nullptr;              // [rows] of the token, before the limits; or null

  void* workspace = nullptr;  // sampling_cpu_workspace bytes; a GPU needs none
};

int64_t sampling_cpu_workspace(const Sampling& args);
void sampling_cpu(const Sampling& args, CpuLevel level = cpu_level());

// ---- on a GPU
//
// In one launch.

void sampling_cuda(const Sampling& args, CudaStream stream);

}  // namespace forge
