#pragma once
// Gated activations with the adapters beside them on a GPU, in 16 bits, one launch each; formulas
// and shapes as in gated_args.h.
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"
#include "kernels/lora/gated_args.h"
#include "kernels/lora/gated_space.h"

namespace forge {

inline int64_t gated_sums_cuda_workspace(const GatedSums& args) { return 4 * gated_cut(args).numbers; }
void gated_sums_cuda(const GatedSums& args, CudaStream stream);
inline int64_t gated_gradients_cuda_workspace(const GatedGradients& args) { return 4 * gated_cut(args).numbers; }
void gated_gradients_cuda(const GatedGradients& args, CudaStream stream);

// Partial sums are written and read.
inline GpuLaunches launches(const GatedSums& a) {
  const double weights = matrix_bytes(a.type, a.rank, a.width);
  return {{"gated_sums", matrix_bytes(a.type, a.tokens, 3 * a.width + (a.kept ? 2 : 1) * a.rank) +
                             2 * matrix_bytes(Element::f32, gated_cut(a).numbers) + weights, weights}};
}
inline GpuLaunches launches(const GatedGradients& a) {
  const int64_t made = a.side[0].rank + a.side[1].rank;
  const double weights = 2 * matrix_bytes(Element::f32, a.rank, a.width) + matrix_bytes(a.type, made, a.width) +
                         2 * matrix_bytes(Element::f32, made, a.width);
  return {{"gated_gradients", matrix_bytes(a.type, a.tokens, 5 * a.width + a.rank + 2 * made) +
                                  2 * matrix_bytes(Element::f32, gated_cut(a).numbers) + weights, weights}};
}

}  // namespace forge
