#pragma once
// Thin products of folded adapters on a GPU, in 16 bits, one launch each; formulas and shapes as in
// folded_args.h.
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"
#include "kernels/lora/folded_args.h"
#include "kernels/lora/folded_space.h"

namespace forge {

inline int64_t adapter_sums_cuda_workspace(const AdapterSums& args) { return 4 * thin_cut(args).numbers; }
void adapter_sums_cuda(const AdapterSums& args, CudaStream stream);
inline int64_t adapter_sums_gradient_cuda_workspace(const AdapterSumsGradient& args) { return 4 * thin_cut(args).numbers; }
void adapter_sums_gradient_cuda(const AdapterSumsGradient& args, CudaStream stream);

// Partial sums are written and read.
inline GpuLaunches launches(const AdapterSums& a) {
  const int64_t ranks = thin::ranks_of(a.member, a.members);
  const double weights = matrix_bytes(a.type, ranks, a.width);
  return {{"adapter_sums", matrix_bytes(a.type, a.tokens, a.width + (a.kept ? 2 : 1) * ranks) +
                               2 * matrix_bytes(Element::f32, thin_cut(a).numbers) + weights, weights}};
}
inline GpuLaunches launches(const AdapterSumsGradient& a) {
  int64_t width = 0, ranks = 0;
  double weights = 0;
  for (int64_t i = 0; i < a.members; ++i) {
    const FoldedMember& m = a.member[i];
    width += m.out, ranks += m.rank;
    weights += matrix_bytes(a.type, m.out, m.rank) + 2 * matrix_bytes(Element::f32, m.out, m.rank);
  }
  return {{"adapter_sums_gradient", matrix_bytes(a.type, a.tokens, width + 2 * ranks) +
                                        2 * matrix_bytes(Element::f32, thin_cut(a).numbers) + weights, weights}};
}

}  // namespace forge
