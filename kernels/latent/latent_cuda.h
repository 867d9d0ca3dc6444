#pragma once
// Heads of latent attention on a GPU; shapes as in latent_args.h.
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"
#include "kernels/latent/latent_args.h"

namespace forge {

void latent_heads_cuda(const LatentHeads& args, CudaStream stream);
void trim_heads_cuda(const TrimHeads& args, CudaStream stream);

inline GpuLaunches launches(const LatentHeads& a) {
  const int64_t apart = a.heads * (a.head_dim + (a.head_dim - a.rope_dim) + a.value_dim) + a.rope_dim;
  GpuLaunches list{{a.back ? "latent_heads_back" : "latent_heads", matrix_bytes(a.type, a.rows, apart + 3 * a.heads * a.head_dim)}};
  if (a.back) list.push_back({"latent_key_back", matrix_bytes(a.type, a.rows, a.rope_dim * (1 + a.heads))});
  return list;
}
inline GpuLaunches launches(const TrimHeads& a) {
  const double width = static_cast<double>(a.heads) * static_cast<double>(a.head_dim + a.value_dim);
  return {{"trim_heads", static_cast<double>(a.element_bytes) * static_cast<double>(a.rows) * width}};
}

}  // namespace forge
