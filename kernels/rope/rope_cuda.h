#pragma once
// Rotary embedding in place on a fused projection, on a GPU; formulas, shapes and bytes as in
// rope_args.h. q, k and v are afterwards the strided parts of the same buffer: the split moves
// nothing.
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"
#include "kernels/rope/rope_args.h"

namespace forge {

void rope_cuda(const Rope& args, CudaStream stream);

inline GpuLaunches launches(const Rope& a) {
  const char* name = a.layout == RopeLayout::interleaved ? "rope_interleaved" : "rope_half";
  return {{name, 2 * matrix_bytes(a.type, a.tokens, (a.heads + a.kv_heads) * a.head_dim)}};
}

}  // namespace forge
