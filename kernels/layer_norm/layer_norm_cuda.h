#pragma once
// Layer normalisation on a GPU; formulas, shapes and bytes as in layer_norm_args.h. Results do not
// depend on timing.
#include "kernels/device/column_sums.h"
#include "kernels/device/launch.h"
#include "kernels/layer_norm/layer_norm_args.h"

namespace forge {

void layer_norm_forward_cuda(const LayerNormForward& args, CudaStream stream);
void layer_norm_backward_cuda(const LayerNormBackward& args, CudaStream stream);
// Bytes for the gradients of weight and bias.
inline int64_t layer_norm_backward_cuda_workspace(const LayerNormBackward& args) {
  return args.d_weight || args.d_bias ? column_sums_bytes(args.rows, args.width, 2) : 0;
}

}  // namespace forge
