#pragma once
// The output head on a GPU: numbers, shapes and cotangents as in lm_head_args.h. It takes chunks of
// positions, each with three launches: logits by a library's product, logits_cuda, and the products
// of the gradient.
//
// Logits are rounded to the type before they are reduced, as tensor cores give them, and so is
// their gradient. A position without a target costs its part of the products here: leave such
// positions out beforehand.
#include <algorithm>

#include "kernels/device/launch.h"
#include "kernels/lm_head/lm_head_args.h"

namespace forge {

// One chunk's logits: at most 2,048 positions, a full rate for the products in half a gigabyte.
// Their rows begin at 16 bytes.
constexpr int64_t kHeadPositions = 2048;
inline int64_t logits_stride(const LmHead& args) { return (args.vocab + 15) / 16 * 16; }
inline int64_t lm_head_cuda_workspace(const LmHead& args) {
  return std::min(args.positions, kHeadPositions) * logits_stride(args) * bytes_of(args.type);
}
void lm_head_cuda(const LmHead& args, CudaStream stream);

}  // namespace forge
